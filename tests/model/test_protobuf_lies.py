"""Descriptor sets that no compiler of Protobuf makes, and fields that are no columns: no body stops a task by them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from lakemq.model.errors import IncompatibleSchema, InvalidRequest
from lakemq.model.fit import Misfit
from lakemq.model.json_schema import SYMBOL_BYTES_MAX
from lakemq.model.protobuf_schema import parse_protobuf_schema
from lakemq.model.row_room import VALUE_BYTES, VALUES_MAX
from lakemq.model.schema import (
    NO_SCHEMAS,
    Decode,
    SchemaVersion,
    compact,
    make_decoder,
    next_version,
    parse_schema,
)
from tests.model.protobuf_files import Members, files_of, schema_of

Change = Callable[[Any, Any, Any], object]
"""Of the field that is a map, and of its entry's key and value."""


def _decoder(files: Any) -> Decode:
    return make_decoder((SchemaVersion(1, "protobuf", compact(schema_of(files)), 0),))


def _is_a_message(field: Any, type_name: str) -> None:
    field.type, field.type_name = 11, type_name


@pytest.mark.parametrize(
    "change",
    [
        lambda field, key, value: _is_a_message(key, ".t.L"),
        lambda field, key, value: _is_a_message(key, ".google.protobuf.Timestamp"),
        lambda field, key, value: setattr(key, "type", 1),
        lambda field, key, value: setattr(key, "type", 12),
        lambda field, key, value: setattr(key, "label", 2),
        lambda field, key, value: setattr(key, "label", 3),
        lambda field, key, value: setattr(value, "label", 3),
        lambda field, key, value: setattr(value, "oneof_index", 0),
        lambda field, key, value: setattr(field, "label", 1),
    ],
)
def test_a_map_s_entries_are_a_key_and_a_value(change: Change) -> None:
    files = files_of(M={"a": "1 int32", "m": "2 map<string,int32>"}, L={"x": "1 int32"})
    message = files.file[-1].message_type[0]
    parse_protobuf_schema(schema_of(files))
    change(message.field[1], *message.nested_type[0].field)
    with pytest.raises(InvalidRequest, match="the schema at m: its entries aren't those of a map"):
        parse_protobuf_schema(schema_of(files))


@pytest.mark.parametrize("type", ["repeated int32", "map<string,int32>"])
def test_a_field_of_a_oneof_is_not_repeated(type: str) -> None:
    files = files_of(M={"a": "1 oneof:w int32", "b": f"2 {type}"})
    files.file[-1].message_type[0].field[1].oneof_index = 0
    with pytest.raises(InvalidRequest, match="the schema at b: a field of a oneof can't be repeated"):
        parse_protobuf_schema(schema_of(files))


def test_the_last_of_a_oneof_counts_however_they_alternate() -> None:
    fields = {"a": "1 oneof:w int32", "b": "2 oneof:w int32", "c": "3 oneof:w int32", "d": "4 oneof:v int32"}
    decode = _decoder(files_of(M=fields))
    a, b, c, d = (bytes([number << 3, number]) for number in range(1, 5))
    nothing = dict.fromkeys("abcd")
    assert decode(a + b + a + d + c + b, 0) == {**nothing, "b": 2, "d": 4}
    assert decode(a + a, 0) == {**nothing, "a": 1}
    assert decode(b"", 0) == nothing


def test_a_oneof_of_many_fields_costs_each_field_no_more_than_one_of_two() -> None:
    """What a field knew of all others took N * N references, and as many steps for a body as for N of them."""
    files = files_of(M={f"x{at}": f"{at} oneof:w bool" for at in range(1, 991)})
    tracemalloc.start()
    try:
        decode = _decoder(files)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 3_000_000
    assert decode(b"\x08\x01\x10\x01", 0) == {**{f"x{at}": None for at in range(1, 991)}, "x2": True}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("group", "string", "y, field 2, was a group, and would be string"),
        ("group", "L", "y, field 2, was a group, and would be message"),
        ("M", "int32", "y, field 2, was a message, and would be int32"),
        ("repeated M", "bytes", "y, field 2, was a message, and would be bytes"),
        ("M", "L", None),
        ("Empty", "map<string,int32>", None),
        ("Empty", "google.protobuf.Timestamp", None),
        ("group", "group", None),
    ],
)
def test_a_field_that_was_left_out_keeps_its_type_too(old: str, new: str, why: str | None) -> None:
    """Bodies of the old version have it, and none of them could be read."""

    def text_of(type: str) -> str:
        fields: Members = {"x": "1 int32", "y": f"2 {type}"}
        return compact(schema_of(files_of("t", "proto2", M=fields, L={"x": "1 int32"}, Empty={})))

    version, _ = next_version(NO_SCHEMAS, "t", "protobuf", text_of(old), 0, None)
    schemas = NO_SCHEMAS.changed(version._asdict())
    if why is None:
        next_version(schemas, "t", "protobuf", text_of(new), 0, None)
        return
    with pytest.raises(IncompatibleSchema) as error:
        next_version(schemas, "t", "protobuf", text_of(new), 0, None)
    assert why in error.value.detail


def test_the_names_of_an_enum_are_short() -> None:
    """A body of 40 KB named one of 40 KB forty thousand times: a column of 1.6 GB."""
    longest = "A" * SYMBOL_BYTES_MAX
    parse_protobuf_schema(schema_of(files_of(M={"x": "1 S"}, S={longest: 0})))
    with pytest.raises(InvalidRequest, match="the schema at x: a name of its enum has more than 128 bytes"):
        parse_protobuf_schema(schema_of(files_of(M={"x": "1 S"}, S={"NEW": 0, longest + "A": 1})))
    for symbol, fits in ((longest, True), (longest + "A", False)):
        avro = compact({"type": "record", "name": "R", "fields": [
            {"name": "x", "type": {"type": "enum", "name": "S", "symbols": [symbol]}}
        ]})  # fmt: skip
        if fits:
            parse_schema("avro", avro)
            continue
        with pytest.raises(InvalidRequest, match="a symbol of its enum has more than 128 bytes"):
            parse_schema("avro", avro)


@pytest.mark.parametrize(
    ("type", "entry"), [("repeated S", b"\x08\x00"), ("repeated W", b"\x0a\x00"), ("map<int32,S>", b"\x0a\x00")]
)
def test_a_long_name_of_an_enum_counts_as_several_values(type: str, entry: bytes) -> None:
    symbol = "A" * SYMBOL_BYTES_MAX
    decode = _decoder(files_of(M={"x": f"1 {type}"}, W={"s": "1 S", "v": "2 V"}, V={"s": "1 S"}, S={symbol: 0}))
    assert decode(entry * 3, 0)["x"]
    with pytest.raises(Misfit, match="more than 2000000 values"):
        decode(entry * (VALUES_MAX // (SYMBOL_BYTES_MAX // VALUE_BYTES)), 0)
    if type == "repeated S":
        count = VALUES_MAX // (SYMBOL_BYTES_MAX // VALUE_BYTES)
        size = bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
        with pytest.raises(Misfit, match="more than 2000000 values"):
            decode(b"\x0a" + size + b"\0" * count, 0)
