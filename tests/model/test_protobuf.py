"""Protobuf's messages as columns, and their bodies as rows: as Google's own library has them."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.column_type import in_sql
from lakemq.model.errors import IncompatibleSchema, InvalidRequest
from lakemq.model.fit import Misfit
from lakemq.model.protobuf_schema import only_message, parse_protobuf_schema
from lakemq.model.protobuf_wire import GROUPS_MAX
from lakemq.model.row_room import VALUES_MAX
from lakemq.model.schema import NO_SCHEMAS, Decode, SchemaVersion, compact, make_decoder, next_version, parse_schema
from tests.model.protobuf_files import Members, class_of, files_of, schema_of

LINE: Members = {"sku": "1 string", "count": "2 int32"}
STATE: Members = {"NEW": 0, "PAID": 1}


def decoder(files: Any) -> Decode:
    return make_decoder((SchemaVersion(1, "protobuf", compact(schema_of(files)), 0),))


def columns(**types: Members) -> dict[str, str]:
    found = parse_schema("protobuf", compact(schema_of(files_of(**types)))).columns
    return {each.name: in_sql(each.type) for each in found.fields}


def left_out(files: Any) -> tuple[str, ...]:
    return parse_protobuf_schema(schema_of(files))[1]


def read(body: bytes, syntax: str = "proto3", /, **types: Members) -> Any:
    return decoder(files_of("t", syntax, **types))(body, 0)


P = "google.protobuf"


@pytest.mark.parametrize(
    ("type", "column", "value", "shown"),
    [
        ("bool", "boolean", True, True),
        *[(each, "int", -(2**31), -(2**31)) for each in ("int32", "sint32", "sfixed32")],
        *[(each, "bigint", -(2**63), -(2**63)) for each in ("int64", "sint64", "sfixed64")],
        *[(each, "bigint", 2**32 - 1, 2**32 - 1) for each in ("uint32", "fixed32")],
        *[(each, "decimal(20,0)", 2**64 - 1, Decimal(2**64 - 1)) for each in ("uint64", "fixed64")],
        ("float", "float", 0.5, 0.5),
        ("double", "double", 0.1, 0.1),
        ("string", "string", "é", "é"),
        ("bytes", "binary", b"\xff", b"\xff"),
        ("S", "string", 1, "PAID"),
        ("S", "string", -7, "-7"),
    ],
)
def test_scalars_are_columns(type: str, column: str, value: Any, shown: Any) -> None:
    types: dict[str, Members] = {
        "M": {"x": f"1 {type}", "o": f"2 optional {type}", "many": f"3 repeated {type}", "one": f"1999 {type}"},
        "S": STATE,
    }
    files = files_of(**types)
    body = class_of(files)(x=value, o=value, many=[value, value], one=value).SerializeToString()
    assert columns(**types) == {"x": column, "o": column, "many": f"array<{column}>", "one": column}
    assert decoder(files)(body, 0) == {"x": shown, "o": shown, "many": [shown, shown], "one": shown}


def test_what_is_absent_is_zero_or_null_as_its_presence_is_tracked() -> None:
    kinds = ("bool", "int32", "uint64", "double", "string", "bytes", "S")
    zeros = {"x0": False, "x1": 0, "x2": Decimal(0), "x3": 0.0, "x4": "", "x5": b"", "x6": "NEW"}
    implicit: Members = {f"x{at}": f"{at + 1} {kind}" for at, kind in enumerate(kinds)}
    explicit: Members = {
        "o": "1 optional int32",
        "m": "2 L",
        "t": f"3 {P}.Timestamp",
        "w": f"4 {P}.Int64Value",
        "a": "5 oneof:z string",
        "r": "6 repeated L",
        "map": "7 map<string,L>",
    }
    assert read(b"", M=implicit, S=STATE) == zeros
    nulls = dict.fromkeys(("o", "m", "t", "w", "a"))
    row = read(b"", M=explicit, L=LINE)
    assert row == {**nulls, "r": [], "map": []}
    row["r"].append(1)
    assert read(b"", M=explicit, L=LINE)["r"] == []
    assert read(b"", "proto2", M={"x": "1 optional int32", "d": "2 optional default=5 int32"}) == {"x": None, "d": None}
    assert read(b"\x12\x00\x1a\x00\x22\x00", M=explicit, L=LINE) | {"r": [], "map": []} == {
        **nulls, "m": {"sku": "", "count": 0}, "t": datetime(1970, 1, 1, tzinfo=UTC), "w": 0, "r": [], "map": [],
    }  # fmt: skip


def test_the_default_that_proto2_gives_a_field_is_named_as_left_out() -> None:
    files = files_of("t", "proto2", M={"x": "1 optional default=5 int32"})
    assert left_out(files) == ("the default of x",)


def test_messages_maps_and_well_known_types_are_columns() -> None:
    types: dict[str, Members] = {
        "M": {
            "line": "1 L",
            "lines": "2 repeated L",
            "at": f"3 {P}.Timestamp",
            "took": f"4 repeated {P}.Duration",
            "named": "5 map<string,L>",
            "numbered": "6 map<int32,S>",
            "flags": f"7 map<bool,{P}.StringValue>",
            "wrapped": f"8 {P}.UInt64Value",
        },
        "L": LINE,
        "S": STATE,
    }
    line = "struct<`sku`:string,`count`:int>"
    assert columns(**types) == {
        "line": line, "lines": f"array<{line}>", "at": "timestamp", "took": "array<decimal(21,9)>",
        "named": f"map<string,{line}>", "numbered": "map<string,string>", "flags": "map<string,string>",
        "wrapped": "decimal(20,0)",
    }  # fmt: skip
    files = files_of(**types)
    body = class_of(files)(line={"sku": "a"}, lines=[{"count": 1}, {}], numbered={-3: 1, 4: 0}, wrapped={"value": 7})
    body.at.FromJsonString("0001-01-01T00:00:00.123456789Z")
    for seconds, nanos in ((-1, -500_000_000), (315_576_000_000, 999_999_999)):
        body.took.add(seconds=seconds, nanos=nanos)
    body.named["k"].sku = "b"
    body.flags[True].value = "yes"
    row = decoder(files)(body.SerializeToString(), 0)
    assert row["line"] == {"sku": "a", "count": 0}
    assert row["lines"] == [{"sku": "", "count": 1}, {"sku": "", "count": 0}]
    assert row["at"] == datetime(1, 1, 1, 0, 0, 0, 123456, UTC)
    assert row["took"] == [Decimal("-1.5"), Decimal("315576000000.999999999")]
    assert row["named"] == [("k", {"sku": "b", "count": 0})]
    assert sorted(row["numbered"]) == [("-3", "PAID"), ("4", "NEW")]
    assert (row["flags"], row["wrapped"]) == ([("true", "yes")], Decimal(7))


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_an_entry_of_a_map_may_lack_its_key_or_its_value(syntax: str) -> None:
    types: dict[str, Members] = {
        "M": {
            "m": "1 map<string,L>",
            "n": "2 map<int32,int32>",
            "s": "3 map<bool,S>",
            "t": f"4 map<int32,{P}.Duration>",
        },
        "L": {"x": "1 optional int32"},
        "S": STATE,
    }
    row = read(b"\x0a\x00\x12\x00\x12\x02\x08\x05\x12\x04\x08\x05\x10\x07\x1a\x00\x22\x00", syntax, **types)
    assert row == {
        "m": [("", {"x": None})],
        "n": [("0", 0), ("5", 7)],
        "s": [("false", "NEW")],
        "t": [("0", Decimal(0))],
    }


def test_parts_of_a_message_are_one_and_the_last_of_a_oneof_counts() -> None:
    types: dict[str, Members] = {
        "M": {
            "line": "1 L",
            "a": "2 oneof:z L",
            "b": "3 oneof:z int32",
            "c": "4 oneof:z string",
            "d": "5 oneof:y bool",
        },
        "L": LINE,
    }
    first, second = b"\x0a\x01s", b"\x10\x05"
    line = {"sku": "s", "count": 5}
    row = read(b"\x0a\x03" + first + b"\x28\x01\x0a\x02" + second, **types)
    assert row == {"line": line, "a": None, "b": None, "c": None, "d": True}
    assert read(b"\x18\x07\x12\x03" + first + b"\x12\x02" + second, **types)["a"] == line
    row = read(b"\x12\x03" + first + b"\x18\x07\x12\x02" + second, **types)
    assert (row["a"], row["b"]) == ({"sku": "", "count": 5}, None)
    assert read(b"\x12\x00\x22\x01x\x18\x07", **types)["b"] == 7


def test_numbers_that_are_repeated_come_packed_or_one_by_one() -> None:
    assert read(b"\x0a\x02\x01\x02\x08\x03\x0a\x01\x04", M={"x": "1 repeated int32"}) == {"x": [1, 2, 3, 4]}
    assert read(b"\x08\x96\x80\x80\x80\xf0\xff\xff\xff\x7f", M={"x": "1 int32"}) == {"x": 22}, "the low 32 bits"
    assert read(b"\x08\x82\x80\x80\x80\x10", M={"x": "1 sint32"}) == {"x": 1}
    assert read(b"\x08" + b"\xff" * 9 + b"\x7f", M={"x": "1 uint64"}) == {"x": Decimal(2**64 - 1)}


def test_fields_that_the_schema_does_not_have_are_passed_over() -> None:
    unknown = b"\x10\x05\x19" + b"x" * 8 + b"\x22\x02ab\x2d" + b"x" * 4 + b"\x33\x3b\x10\x01\x3c\x0a\x00\x34"
    assert read(unknown + b"\x08\x07" + unknown, M={"x": "1 int32"}) == {"x": 7}


def test_confluent_s_header_is_passed_over() -> None:
    for header in (
        b"\x00\x00\x00\x00\x09\x00",
        b"\x00\x00\x00\x00\x09\x02\x04",
        b"\x00\x00\x00\x00\x09\x04\x00\x80\x01",
    ):
        assert read(header + b"\x08\x07", M={"x": "1 int32"}) == {"x": 7}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"no Protobuf", "another type|no Protobuf|too early"),
        (b"\x08", r"x: the body ends too early"),
        (b"\x80", "the body ends too early"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "x: a number has more than 64 bits"),
        (b"\x0d\x01\x01\x01\x01", "x: it is of another type"),
        (b"\x12\x05a", "s: the body ends too early"),
        (b"\x12\x01\xff", "s: the text is no UTF-8"),
        (b"\x1a\x04\x08\x01\x12\x05", r"lines\[0\].sku: it is of another type"),
        (b"\x22\x03\x0a\x01\xff", "line.sku: the text is no UTF-8"),
        (b"\x29\x01", "f: the body ends too early"),
        (b"\x31\x01", "the body ends too early"),
        (b"\x35\x01", "the body ends too early"),
        (b"\x06", "no Protobuf"),
        (b"\x00", "no Protobuf"),
        (b"\x00\x00\x00\x00\x01\xce\x01", "no Protobuf"),
        (b"\x00\x00\x00\x00\x01\x02", "too early"),
        (b"\x34", "no Protobuf"),
        (b"\x33\x3c", "a group ends that didn't begin"),
        (b"\x33", "too early"),
        (b"\x33" * (GROUPS_MAX + 2), "groups within each other"),
        (b"\x3a\x02\x10\xff", "at: the body ends too early"),
        (b"\x3a\x0b\x08" + b"\xff" * 8 + b"\x7f\x00", "at: "),
        (b"\x3a\x06\x10\x80\x94\xeb\xdc\x03", "at: the time is outside"),
        (b"\x42\x07\x08\x80\xa0\xd2\xeb\xd8\x0f", "took: "),
        (b"\x42\x06\x10\x80\x94\xeb\xdc\x03", "took: it is no duration"),
        (b"\x42\x0d\x08\x01\x10" + b"\xff" * 9 + b"\x01", "took: it is no duration"),
    ],
)
def test_a_body_that_does_not_fit_says_where(body: bytes, why: str) -> None:
    types: dict[str, Members] = {
        "M": {
            "x": "1 int32", "s": "2 string", "lines": "3 repeated L", "line": "4 L", "f": "5 fixed64",
            "at": f"7 {P}.Timestamp", "took": f"8 {P}.Duration",
        },
        "L": {"sku": "1 string", "count": "2 int32"},
    }  # fmt: skip
    types["L"] = {"count": "1 int32", "sku": "2 int32"} if b"\x1a" in body[:1] else LINE
    with pytest.raises(Misfit, match=why):
        read(body, **types)


def test_a_time_may_have_fields_that_nobody_knows() -> None:
    assert read(b"\x0a\x04\x08\x01\x18\x07", M={"t": f"1 {P}.Timestamp"})["t"] == datetime(1970, 1, 1, 0, 0, 1, 0, UTC)


def test_what_proto2_requires_has_to_be_there() -> None:
    types: dict[str, Members] = {"M": {"x": "1 required int32", "m": "2 optional L"}, "L": {"y": "1 required string"}}
    assert read(b"\x08\x00", "proto2", **types) == {"x": 0, "m": None}
    with pytest.raises(Misfit, match=r"^x: it is required"):
        read(b"", "proto2", **types)
    with pytest.raises(Misfit, match=r"^m\.y: it is required"):
        read(b"\x08\x00\x12\x00", "proto2", **types)


def test_what_can_be_no_column_is_left_out_and_named() -> None:
    files = files_of(
        M={
            "x": "1 int32", "again": "2 M", "tree": "3 Tree", "nothing": "4 Empty", "any": f"5 {P}.Struct",
            "trees": "6 map<string,M>", "nil": "7 repeated Empty", "group": "8 group",
        },
        Tree={"left": "1 Tree", "leaf": "2 int32"},
        Empty={},
    )  # fmt: skip
    found, left = parse_protobuf_schema(schema_of(files))
    value = "struct<`null_value`:string,`number_value`:double,`string_value`:string,`bool_value`:boolean>"
    struct = f"struct<`fields`:map<string,{value}>>"
    assert in_sql(found.columns) == f"struct<`x`:int,`tree`:struct<`leaf`:int>,`any`:{struct}>"
    assert left == (
        "again", "tree.left", "nothing", "any.fields.value.struct_value", "any.fields.value.list_value.values",
        "any.fields.value.list_value", "trees.value", "trees", "nil", "group",
    )  # fmt: skip
    many = left_out(files_of(M={"x": "1 int32", **{f"m{at}": f"{at + 2} M" for at in range(60)}}))
    assert many[-1] == "10 more"
    with pytest.raises(InvalidRequest, match="no fields that can be columns"):
        left_out(files_of(M={"again": "1 M"}))


def test_a_schema_that_is_no_message_is_refused() -> None:
    good = schema_of(files_of(M={"x": "1 int32"}))
    wrong: list[tuple[Any, str]] = [
        ([], "is an object of two"),
        ({**good, "more": 1}, "is an object of two"),
        ({"message": "t.M"}, "is an object of two"),
        ({**good, "message": 1}, "is an object of two"),
        ({**good, "descriptor_set": "é"}, "no base64"),
        ({**good, "descriptor_set": "AAAA"}, "no FileDescriptorSet"),
        ({**good, "descriptor_set": ""}, "there are: none"),
        ({**good, "message": "t.N"}, r"no message 't.N'; there are: .*t\.M"),
        (schema_of(files_of(M={"x": "1 Nowhere"})), "no message 't.Nowhere'"),
        (schema_of(files_of(M={"x": "0 int32"})), "number"),
        (schema_of(files_of(M={"x": "1 int32", "y": "1 int32"})), "the same number"),
        (schema_of(files_of(M={"x": "1 int32", "X": "2 int32"})), "SQL ignores case"),
        (schema_of(files_of("t", "editions", M={"x": "1 int32"})), "edition 0; only proto2, proto3"),
        (schema_of(files_of(M={f"x{at}": f"{at} int32" for at in range(1, 1_002)})), "more than 1000 parts"),
        (schema_of(files_of(M={"x": "1 N0"}, **{f"N{at}": {"x": f"1 N{at + 1}"} for at in range(8)})), "within each"),
    ]
    for schema, why in wrong:
        with pytest.raises(InvalidRequest, match=why):
            parse_protobuf_schema(schema)
    assert in_sql(parse_protobuf_schema({**good, "message": ".t.M"})[0].columns) == "struct<`x`:int>"
    files = files_of(M={"x": "1 S"}, S=STATE)
    del files.file[-1].enum_type[:]
    with pytest.raises(InvalidRequest, match=r"no enum 't\.S'"):
        left_out(files)
    files = files_of(M={"x": "1 int32"})
    within = files.file[-1].message_type.add(name="Deep")
    for _ in range(20):
        within = within.nested_type.add(name="Deep")
    with pytest.raises(InvalidRequest, match="too deep"):
        left_out(files)
    with pytest.raises(InvalidRequest, match="no UTF-8"):
        parse_protobuf_schema({"message": "M", "descriptor_set": "CgUiAwoB/w=="})


def test_enums_and_messages_within_others_and_without_a_package_are_found() -> None:
    files = files_of("", "proto3", M={"x": "1 S", "y": "2 S", "m": "3 map<string,S>"}, S={"A": 0, "B": 1, "ALSO_B": 1})
    files.file[-1].enum_type[0].options.allow_alias = True
    decode = make_decoder((SchemaVersion(1, "protobuf", compact(schema_of(files, "M")), 0),))
    assert decode(b"\x08\x01", 0) == {"x": "B", "y": "A", "m": []}
    del files.file[-1].enum_type[0].value[:]
    decode = make_decoder((SchemaVersion(1, "protobuf", compact(schema_of(files, "M")), 0),))
    assert decode(b"", 0)["x"] == "0"


def test_the_one_message_of_the_last_file_is_found() -> None:
    assert only_message(files_of(M={"x": "1 int32"}).SerializeToString()) == "t.M"
    assert only_message(files_of("", "proto3", M={"x": "1 int32"}).SerializeToString()) == "M"
    for content, why in (
        (files_of(M={}, N={}).SerializeToString(), r"which of these is it: t\.M, t\.N"),
        (b"", "its last file has none"),
        (b"x", "no FileDescriptorSet"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            only_message(content)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ({"x": "1 int32"}, {"x": "1 int32", "y": "2 string"}, None),
        ({"x": "1 int32", "y": "2 string"}, {"y": "2 string"}, None),
        ({"x": "1 int32"}, {"renamed": "1 int64"}, None),
        ({"x": "1 uint32", "y": "2 sint32"}, {"x": "1 uint64", "y": "2 sint64"}, None),
        ({"x": "1 int32"}, {"x": "1 optional int32"}, None),
        ({"x": "1 L"}, {"x": "1 L", "m": "2 map<string,L>"}, None),
        ({"x": "1 oneof:z int32", "y": "2 oneof:z bool"}, {"x": "1 oneof:w int32", "y": "2 oneof:w bool"}, None),
        ({"x": "1 int32", "y": "2 bool"}, {"x": "1 oneof:z int32", "n": "3 oneof:z bool", "y": "2 bool"}, None),
        ({"x": "1 int64"}, {"x": "1 int32"}, "x, field 1, was int64, and would be int32"),
        ({"x": "1 int32"}, {"x": "1 sint32"}, "x, field 1, was int32, and would be sint32"),
        ({"x": "1 int32"}, {"x": "1 repeated int32"}, "x, field 1, was int32, and would be repeated int32"),
        ({"x": "1 int32"}, {"x": "2 int32"}, "x was field 1, and would be field 2"),
        ({"x": "1 map<string,int32>"}, {"x": "1 map<string,bool>"}, "x.value, field 2, was int32"),
        ({"x": "1 int32", "y": "2 bool"}, {"x": "1 oneof:z int32", "y": "2 oneof:z bool"}, "x and y would exclude"),
        ({"x": f"1 {P}.Int32Value"}, {"x": "1 L"}, "x, field 1, was wrapper, and would be message"),
    ],
)  # fmt: skip
def test_a_change_is_compatible_if_each_number_keeps_its_type(old: Members, new: Members, why: str | None) -> None:
    _change(files_of(M=old, L=LINE), files_of(M=new, L=LINE), why)


def test_nothing_may_be_required_that_was_not() -> None:
    optional, required = (files_of("t", "proto2", M={"x": f"1 {each} int32"}) for each in ("optional", "required"))
    more = files_of("t", "proto2", M={"x": "1 required int32", "y": "2 required bool"})
    _change(required, required, None)
    _change(required, optional, None)
    _change(optional, required, "x would be required")
    _change(required, more, "y would be required")


def _change(old: Any, new: Any, why: str | None) -> None:
    version, _ = next_version(NO_SCHEMAS, "t", "protobuf", compact(schema_of(old)), 0, None)
    schemas = NO_SCHEMAS.changed(version._asdict())
    if why is None:
        next_version(schemas, "t", "protobuf", compact(schema_of(new)), 0, None)
        return
    with pytest.raises(IncompatibleSchema) as error:
        next_version(schemas, "t", "protobuf", compact(schema_of(new)), 0, None)
    assert why in error.value.detail


def test_a_small_body_becomes_no_more_values_than_there_is_room_for() -> None:
    wide: Members = {f"x{at}": f"{at} int32" for at in range(1, 451)}
    types: dict[str, Members] = {"M": {"a": "1 repeated W", "m": "2 map<int32,W>", "b": "3 repeated bool"}, "W": wide}
    decode = decoder(files_of(**types))
    assert len(decode(b"\x0a\x00" * 100, 0)["a"]) == 100
    for entry in (b"\x0a\x00", b"\x12\x00"):
        with pytest.raises(Misfit, match="more than 2000000 values"):
            decode(entry * (VALUES_MAX // 450 + 1), 0)
    assert len(decode(b"\x18\x01" * 1_000, 0)["b"]) == 1_000
    nearly = b"\x0a\x00" * (VALUES_MAX // 451)
    for numbers in (b"\x18\x01" * 1_000, b"\x1a\xe8\x07" + b"\x01" * 1_000):
        with pytest.raises(Misfit, match="more than 2000000 values"):
            decode(nearly + numbers, 0)


TYPES: dict[str, Members] = {
    "M": {
        "a": "1 int32", "b": "2 sint64", "c": "3 optional uint64", "d": "4 double", "e": "5 string", "f": "6 bytes",
        "g": "7 repeated sint32", "h": "8 repeated string", "i": "9 repeated L", "j": "10 map<int64,L>",
        "k": "11 oneof:z L", "l": "12 oneof:z fixed32", "n": "13 S", "o": "14 bool",
    },
    "L": {**LINE, "flags": "3 repeated bool"},
    "S": STATE,
}  # fmt: skip
FILES = files_of(**TYPES)
MESSAGE, DECODE = class_of(FILES), decoder(FILES)
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LINES = st.fixed_dictionaries({"sku": TEXT, "count": I32, "flags": st.lists(st.booleans(), max_size=3)})
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": I32, "b": I64, "c": st.integers(0, 2**64 - 1), "d": st.floats(allow_nan=False), "e": TEXT,
    "f": st.binary(max_size=8), "g": st.lists(I32, max_size=3), "h": st.lists(TEXT, max_size=3),
    "i": st.lists(LINES, max_size=3), "j": st.dictionaries(I64, LINES, max_size=3), "k": LINES,
    "l": st.integers(0, 2**32 - 1), "n": st.sampled_from([0, 1]), "o": st.booleans(),
}  # fmt: skip


def made(values: dict[str, Any]) -> Any:
    message = MESSAGE(**{name: value for name, value in values.items() if name != "j"})
    for key, value in values.get("j", {}).items():
        message.j[key].MergeFrom(MESSAGE(k=value).k)
    return message


def shown(message: Any) -> dict[str, Any]:
    """As a row, by Google's library."""

    def line(each: Any) -> dict[str, Any]:
        return {"sku": each.sku, "count": each.count, "flags": list(each.flags)}

    plain = {name: getattr(message, name) for name in ("a", "b", "d", "e", "f", "o")}
    return plain | {
        "c": Decimal(message.c) if message.HasField("c") else None,
        "g": list(message.g),
        "h": list(message.h),
        "i": [line(each) for each in message.i],
        "j": sorted((str(key), line(each)) for key, each in message.j.items()),
        "k": line(message.k) if message.HasField("k") else None,
        "l": message.l if message.HasField("l") else None,
        "n": "PAID" if message.n else "NEW",
    }


def test_what_a_descriptor_has_that_is_not_of_its_schema_is_passed_over() -> None:
    content = files_of(M={"x": "1 int32"}).SerializeToString() + b"\x15\x00\x00\x00\x00\x18\x01"
    assert parse_protobuf_schema({"message": "t.M", "descriptor_set": b64encode(content).decode()})[1] == ()


@given(st.lists(st.fixed_dictionaries({}, optional=VALUES), min_size=1, max_size=3))
def test_a_body_is_what_google_s_library_reads_of_it(parts: list[dict[str, Any]]) -> None:
    body = b"".join(made(each).SerializeToString() for each in parts)
    row = DECODE(body, 0)
    row["j"].sort(key=lambda pair: pair[0])
    assert row == shown(MESSAGE.FromString(body))


SET = FILES.SerializeToString()


@given(st.integers(0, len(SET) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_whatever_a_descriptor_set_is_it_is_a_schema_or_refused(at: int, added: bytes, gone: int) -> None:
    content = SET[:at] + added + SET[at + gone :]
    try:
        text = compact({"message": "t.M", "descriptor_set": b64encode(content).decode()})
        decode = make_decoder((SchemaVersion(1, "protobuf", text, 0),))
    except InvalidRequest:
        return
    with suppress(Misfit):
        decode(b"\x08\x01\x4a\x00", 0)


@given(st.binary(max_size=64))
def test_whatever_the_body_is_it_is_a_row_or_has_an_error(body: bytes) -> None:
    try:
        row = DECODE(body, 0)
    except Misfit:
        return
    assert row.keys() == TYPES["M"].keys()
