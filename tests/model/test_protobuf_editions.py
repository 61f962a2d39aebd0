"""Messages of Protobuf's editions as columns, with the features that decide what a body is like; as Google's own
library has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.column_type import in_sql
from lakemq.model.errors import InvalidRequest
from lakemq.model.fit import Misfit
from lakemq.model.protobuf_schema import parse_protobuf_schema
from lakemq.model.schema import Decode, SchemaVersion, compact, make_decoder, parse_schema
from tests.model.protobuf_files import Members, class_of, files_of, schema_of, set_features

LINE: Members = {"sku": "1 string"}
BOTH = pytest.mark.parametrize("edition", ["2023", "2024"])


def decoder(files: Any) -> Decode:
    return make_decoder((SchemaVersion(1, "protobuf", compact(schema_of(files)), 0),))


def columns(files: Any) -> dict[str, str]:
    found = parse_schema("protobuf", compact(schema_of(files))).columns
    return {each.name: in_sql(each.type) for each in found.fields}


@BOTH
def test_presence_is_tracked_unless_a_feature_says_otherwise(edition: str) -> None:
    types: dict[str, Members] = {
        "M": {"x": "1 int32", "i": "2 IMPLICIT int32", "r": "3 repeated int32", "s": "4 oneof:o string", "m": "5 L"},
        "L": LINE,
    }
    files = files_of("t", edition, **types)
    assert columns(files) == {"x": "int", "i": "int", "r": "array<int>", "s": "string", "m": "struct<`sku`:string>"}
    decode = decoder(files)
    assert decode(b"", 0) == {"x": None, "i": 0, "r": [], "s": None, "m": None}
    body = class_of(files)(x=0, i=0, r=[1, 2], s="", m={}).SerializeToString()
    assert decode(body, 0) == {"x": 0, "i": 0, "r": [1, 2], "s": "", "m": {"sku": None}}


def test_a_feature_holds_in_all_that_is_declared_there_until_it_is_set_again() -> None:
    files = files_of("t", "2023", M={"x": "1 int32", "e": "2 EXPLICIT int32", "n": "3 t.M.N", "l": "4 L"}, L=LINE)
    file = files.file[-1]
    set_features(file, "IMPLICIT")
    inner = file.message_type[0].nested_type.add(name="N")
    inner.field.add(name="y", number=1, label=1, type=5)
    assert decoder(files)(b"\x1a\x00\x22\x00", 0) == {"x": 0, "e": None, "n": {"y": 0}, "l": {"sku": ""}}
    set_features(file, "EXPLICIT")
    assert decoder(files)(b"\x1a\x00\x22\x00", 0) == {"x": None, "e": None, "n": {"y": None}, "l": {"sku": None}}
    assert class_of(files)().HasField("x") is False


def test_what_a_feature_requires_has_to_be_there() -> None:
    files = files_of("t", "2023", M={"x": "1 LEGACY_REQUIRED int32", "r": "2 repeated int32"})
    assert decoder(files)(class_of(files)(x=0).SerializeToString(), 0) == {"x": 0, "r": []}
    with pytest.raises(Misfit, match="x"):
        decoder(files)(b"", 0)


@pytest.mark.parametrize("where", ["file", "message", "oneof", "field"])
def test_a_delimited_message_is_a_group_which_is_no_column_but_maps_never_are(where: str) -> None:
    fields: Members = {
        "x": "1 int32",
        "g": f"2 oneof:o {'DELIMITED' if where == 'field' else ''} L",
        "p": "3 oneof:o LENGTH_PREFIXED L",
        "m": "4 map<string,L>",
    }
    files = files_of("t", "2023", M=fields, L=LINE)
    message = files.file[-1].message_type[0]
    if where != "field":
        set_features({"file": files.file[-1], "message": message, "oneof": message.oneof_decl[0]}[where], "DELIMITED")
    found, left_out = parse_protobuf_schema(schema_of(files))
    assert left_out == ("g",)
    assert found.left_out == {2: "group"}
    made = class_of(files)
    body = made(x=7, g={"sku": "a"}).SerializeToString() + made(m={"k": {"sku": "c"}}).SerializeToString()
    assert decoder(files)(body, 0) == {"x": 7, "p": None, "m": [("k", {"sku": "c"})]}
    assert decoder(files)(made(p={"sku": "b"}).SerializeToString(), 0)["p"] == {"sku": "b"}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "x": st.integers(-(2**31), 2**31 - 1),
            "i": st.integers(-(2**31), 2**31 - 1),
            "s": st.text(max_size=5),
            "r": st.lists(st.integers(0, 9), max_size=3),
        },
    )
)
def test_bodies_are_read_as_google_s_library_wrote_them(values: dict[str, Any]) -> None:
    said: Members = {"x": "1 sint32", "i": "2 IMPLICIT int32", "s": "3 oneof:o string", "r": "4 repeated uint32"}
    files = files_of("t", "2024", M=said)
    row = decoder(files)(class_of(files)(**values).SerializeToString(), 0)
    assert row == {"x": None, "i": 0, "s": None, "r": [], **values}


def test_an_edition_that_is_not_known_is_refused_only_where_it_is_needed() -> None:
    files = files_of("t", "2023", M={"x": "1 L"}, L=LINE)
    other = files.file.add(name="other.proto", package="o", syntax="editions", edition=1002)
    other.message_type.add(name="Other").nested_type.add(name="Inner")
    assert columns(files) == {"x": "struct<`sku`:string>"}
    for message in ("o.Other", "o.Other.Inner"):
        with pytest.raises(
            InvalidRequest, match=f"{message} can't be read: its file has the edition 1002; only proto2"
        ):
            parse_protobuf_schema(schema_of(files, message))
    other.syntax = "proto9"
    with pytest.raises(InvalidRequest, match="its file has the syntax 'proto9'"):
        parse_protobuf_schema(schema_of(files, "o.Other"))


def test_a_field_of_a_oneof_that_is_not_declared_has_the_features_of_its_message() -> None:
    files = files_of("t", "2023", M={"x": "1 int32"})
    for at in (3, -1):
        files.file[-1].message_type[0].field[0].oneof_index = at
        assert decoder(files)(b"\x08\x05", 0) == {"x": 5}
