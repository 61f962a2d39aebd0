"""Bodies that would become far more values than they have bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakemq.model.fit import Misfit
from lakemq.model.row_room import VALUE_BYTES, VALUES_MAX, room_of
from lakemq.model.schema import SchemaVersion, compact, make_decoder, parse_schema

MANY = {"properties": {f"f{n}": {"type": "integer"} for n in range(900)}}
NAMES = [f"n{n}" for n in range(900)]


def _json(**properties: Any) -> str:
    return compact({"type": "object", "properties": properties})


@pytest.mark.parametrize("element", [{}, None])
def test_elements_without_their_fields_are_counted_with_them(element: Any) -> None:
    decode = make_decoder((SchemaVersion(1, "json", _json(a={"type": "array", "items": MANY}), 0),))
    assert len(decode(json.dumps({"a": [{}] * 10}).encode(), 0)["a"]) == 10
    with pytest.raises(Misfit, match="more than 2000000 values"):
        decode(json.dumps({"a": [element] * (VALUES_MAX // 900 + 1)}).encode(), 0)


def test_text_that_only_looks_like_many_elements_fits() -> None:
    properties = {"text": {"type": "string"}, "lists": {"type": "array", "items": {"type": "array", "items": MANY}}}
    decode = make_decoder((SchemaVersion(1, "json", _json(**properties), 0),))
    text = "[{," * 10_000
    assert decode(json.dumps({"text": text, "lists": [[{}], []]}).encode(), 0)["text"] == text
    with pytest.raises(Misfit, match=r"expected an array"):
        decode(json.dumps({"text": text, "lists": [7]}).encode(), 0)


def test_maps_and_fields_of_fields_are_counted() -> None:
    nested = {"properties": {"in": {"properties": {"m": {"type": "object", "additionalProperties": MANY}}}}}
    room = room_of(parse_schema("json", _json(a={"type": "array", "items": nested})).columns)
    element = {"in": {"m": dict.fromkeys(map(str, range(VALUES_MAX // 901 // 10)))}}
    size, commas = 10, VALUES_MAX
    assert not room.is_over({"a": [element] * 9 + [None, {"in": None}]}, size, commas)
    assert room.is_over({"a": [element] * 11}, size, commas)


def test_a_large_body_of_many_small_values_fits() -> None:
    decode = make_decoder((SchemaVersion(1, "json", _json(a={"type": "array", "items": {"type": "integer"}}), 0),))
    count = VALUES_MAX + 1
    assert len(decode(b'{"a":[' + b"1," * (count - 1) + b"1]}", 0)["a"]) == count


def test_nulls_that_take_no_byte_of_an_avro_body_are_bounded() -> None:
    fields = [{"name": name, "type": "null"} for name in NAMES]
    assert _avro({"type": "record", "name": "E", "fields": fields}, b"", 10) == 10
    with pytest.raises(Misfit, match="characters"):
        _avro({"type": "record", "name": "E", "fields": fields}, b"", 8_000)
    wide = ["null", {"type": "record", "name": "E", "fields": [{"name": name, "type": "int"} for name in NAMES]}]
    with pytest.raises(Misfit, match="more than 2000000 values"):
        _avro(wide, b"\0", VALUES_MAX // 900 + 1)


def _avro(element: Any, bytes_of_one: bytes, count: int) -> int:
    """How many elements there are in an array of so many."""
    of = {"type": "array", "items": element}
    schema = {"type": "record", "name": "R", "fields": [{"name": "p", "type": "bytes"}, {"name": "a", "type": of}]}
    body = _long(count) + b"\0" * count + _long(count) + bytes_of_one * count + _long(0)
    decoded = make_decoder((SchemaVersion(1, "avro", compact(schema), 0),))(body, 0)
    return len(decoded["a"])


def _long(number: int) -> bytes:
    rest, found = number * 2, b""
    while rest > 127:
        found, rest = found + bytes([rest & 127 | 128]), rest >> 7
    return found + bytes([rest])


def test_what_a_body_takes_is_said_beforehand() -> None:
    flat = room_of(parse_schema("json", _json(a={"type": "integer"})).columns)
    assert flat.bytes_at_most(b"x" * 10) == 10 + 2 * VALUE_BYTES
    wide = room_of(parse_schema("json", _json(a={"type": "array", "items": MANY})).columns)
    assert wide.bytes_at_most(b"x" * 10) > 10 * 900 * VALUE_BYTES
    assert wide.bytes_at_most(b"x" * 1_000_000) == 1_000_000 + VALUES_MAX * VALUE_BYTES
