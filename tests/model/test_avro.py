"""Avro's schemas as columns, and what one has written, read by another."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.avro_decode import DEFAULTS_CHARACTERS_MAX, check_defaults, decoder_of_avro
from lakemq.model.avro_schema import AvroType, check_avro_readable, parse_avro_schema
from lakemq.model.column_type import in_sql
from lakemq.model.errors import InvalidRequest
from lakemq.model.fit import Misfit
from tests.model.avro_writer import encode, long, text


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def x(type: Any, **more: Any) -> dict[str, Any]:
    """A record with that one field."""
    return record({"name": "x", "type": type, **more})


def parsed(document: Any) -> AvroType:
    found = parse_avro_schema(document)
    check_defaults(found)
    return found


def read(writer: Any, body: bytes, reader: Any = None) -> Any:
    """The field `x`."""
    written = parsed(writer)
    return decoder_of_avro(written, written if reader is None else parsed(reader))(body, 0)["x"]


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{each}"} for each in ("millis", "micros"))
DAY = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    ("type", "kind", "value", "shown"),
    [
        ("null", "string", None, None),
        ("boolean", "boolean", True, True),
        ("int", "int", -(2**31), -(2**31)),
        ("long", "bigint", 2**63 - 1, 2**63 - 1),
        ("float", "float", 0.5, 0.5),
        ("double", "double", 0.1, 0.1),
        ("bytes", "binary", b"\xff", b"\xff"),
        ("string", "string", "é", "é"),
        ({"type": "string"}, "string", "a", "a"),
        ({"type": "string", "logicalType": "uuid"}, "string", "a", "a"),
        ({"type": "int", "logicalType": ["odd"]}, "int", 1, 1),
        (FIXED, "binary", b"ab", b"ab"),
        (ENUM, "string", "b", "b"),
        (CENTS, "decimal(4,2)", b"\xff\x85", Decimal("-1.23")),
        ({**FIXED, "logicalType": "decimal", "precision": 3}, "decimal(3,0)", b"\x00\x7b", Decimal(123)),
        ({**CENTS, "precision": 39}, "binary", b"a", b"a"),
        ({**CENTS, "precision": 0, "scale": 0}, "binary", b"a", b"a"),
        ({**CENTS, "precision": "4"}, "binary", b"a", b"a"),
        (MILLIS, "timestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
        (MICROS, "timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        (DAY, "date", 1, date(1970, 1, 2)),
        ({"type": "array", "items": "int"}, "array<int>", [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, "map<string,int>", {"a": 1}, [("a", 1)]),
        (["null", "int"], "int", None, None),
        (["null", "int"], "int", 5, 5),
        (["long", "int"], "bigint", 5, 5),
        (["float", "double"], "double", None, None),
        (["null", "int", "string"], "struct<`member0`:int,`member1`:string>", "a", {"member1": "a"}),
        (["null", "int", "string"], "struct<`member0`:int,`member1`:string>", None, None),
        (record({"name": "y", "type": "int"}, name="S"), "struct<`y`:int>", {"y": 1}, {"y": 1}),
    ],
)
def test_each_type_is_one_of_a_column_s(type: Any, kind: str, value: Any, shown: Any) -> None:
    schema = x(type)
    assert in_sql(parsed(schema).columns) == f"struct<`x`:{kind}>"
    if type != ["float", "double"]:
        assert read(schema, encode(schema, {"x": value})) == shown


def test_a_name_stands_for_its_type_again() -> None:
    schema = record(
        {"name": "x", "type": {**ENUM, "name": "a.b.E", "aliases": ["c.D"]}}, {"name": "y", "type": ["null", "E"]}
    )
    assert in_sql(parsed(schema).columns) == "struct<`x`:string,`y`:string>"
    inner = record({"name": "y", "type": ENUM}, name="I")
    parsed(record({"name": "a", "type": inner}, {"name": "b", "type": {"type": "array", "items": "I"}}))


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else "int"


BOMB = [
    {"name": f"f{at}", "type": record(*({"name": f"p{n}", "type": f"R{at - 1}"} for n in range(9)), name=f"R{at}")}
    for at in range(1, 6)
]


@pytest.mark.parametrize(
    "document",
    [
        1,
        "int",
        "Unknown",
        record(),
        {"type": "record", "fields": []},
        {"type": "record", "name": "", "fields": []},
        {"type": "record", "name": "R", "fields": 1},
        record(1),
        record({"type": "int"}),
        record({"name": "x"}),
        record({"name": "x", "type": "int"}, {"name": "X", "type": "int"}),
        record({"name": "x", "type": "int", "aliases": 1}),
        x({"type": "fixed", "name": "F"}),
        x({"type": "fixed", "name": "F", "size": True}),
        x({"type": "fixed", "name": "F", "size": 0}),
        x({"type": "array"}),
        x({"type": "map"}),
        x(["null"]),
        x([["int"]]),
        x(["null", ["int", "long"]]),
        x("R"),
        x({**ENUM, "name": "R"}),
        x(nested(9)),
        record({"name": "f0", "type": record({"name": "x", "type": "int"}, name="R0")}, *BOMB),
        record(*({"name": f"f{at}", "type": "int"} for at in range(1_001))),
    ],
)
def test_what_can_not_be_columns_is_refused(document: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_avro_schema(document)


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        ("int", 5, 5),
        ("double", 1, 1.0),
        ("string", "a", "a"),
        ("boolean", True, True),
        ("null", None, None),
        ("bytes", "\u00ff", b"\xff"),
        (FIXED, "ab", b"ab"),
        (CENTS, "\u0001", Decimal("0.01")),
        (ENUM, "b", "b"),
        (DAY, 0, date(1970, 1, 1)),
        (MILLIS, 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (MICROS, 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        ({"type": "array", "items": "int"}, [1], [1]),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (["null", "int"], None, None),
        (["int", "string"], "a", {"member1": "a"}),
        (record({"name": "y", "type": "int"}, {"name": "z", "type": "int", "default": 7}, name="S"), {"y": 1},
         {"y": 1, "z": 7}),
    ],
)  # fmt: skip
def test_a_new_field_has_its_default(type: Any, default: Any, value: Any) -> None:
    new = record({"name": "old", "type": "int"}, {"name": "x", "type": type, "default": default})
    assert read(record({"name": "old", "type": "int"}), long(1), new) == value
    assert not check_avro_readable(parsed(record({"name": "old", "type": "int"})), parsed(new))


@pytest.mark.parametrize(
    ("type", "default"),
    [
        ("int", "a"), ("int", True), ("int", 2**31), ("int", 1.5), ("double", "a"), ("double", 10**400), ("string", 1),
        ("boolean", 1), ("null", 1), ("bytes", "\u0100"), ("bytes", 1), (FIXED, "abc"), (CENTS, "abcd"), (ENUM, "c"),
        (DAY, 2**31 - 1), (MILLIS, 2**62), ({"type": "array", "items": "int"}, 1), (["null", "int"], "a"),
        ({"type": "array", "items": "int"}, ["a"]), ({"type": "map", "values": "int"}, []),
        (record({"name": "y", "type": "int"}, name="S"), {}),
        ({"type": "array", "items": record({"name": "y", "type": "int", "default": "a"}, name="S")}, []),
        (["null", record({"name": "y", "type": "int", "default": "a"}, name="S")], None),
    ],
)  # fmt: skip
def test_a_default_is_of_its_type(type: Any, default: Any) -> None:
    with pytest.raises(InvalidRequest, match="default"):
        parsed(x(type, default=default))


S, T = (record({"name": "y", "type": "int"}, name=name) for name in "ST")


@pytest.mark.parametrize(
    ("old", "new", "value", "shown"),
    [
        ("int", "long", 1, 1),
        ("int", "double", 1, 1.0),
        ("long", "float", 1, 1.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "a", b"a"),
        ("bytes", "string", b"a", "a"),
        ("int", ["null", "int"], 1, 1),
        ("int", ["null", "long", "string"], 1, {"member0": 1}),
        (["null", "int"], ["null", "int", "string"], 1, {"member0": 1}),
        (["null", "int"], ["string", "int", "null"], None, None),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1], [1]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"a": 1}, [("a", 1)]),
        (ENUM, {**ENUM, "symbols": ["c", "b", "a"]}, "a", "a"),
        (ENUM, {**ENUM, "symbols": ["c"], "default": "c"}, "a", "c"),
        (ENUM, {**ENUM, "symbols": ["c"], "default": "c", "name": "E2", "aliases": ["E"]}, "a", "c"),
        (S, {**T, "aliases": ["S"]}, {"y": 1}, {"y": 1}),
        # For the specification what counts is the type that a logical type is of.
        ("int", DAY, 1, date(1970, 1, 2)),
        (DAY, "int", 1, 1),
        ("long", MILLIS, 1, datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)),
        ("long", ["null", MICROS], 1, datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
        (MICROS, "long", 1, 1),
        ("bytes", CENTS, b"\x7b", Decimal("1.23")),
        ({**FIXED, "logicalType": "decimal", "precision": 3}, FIXED, b"\x00\x7b", b"\x00\x7b"),
        (MICROS, ["long", MICROS], 1, {"member1": datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)}),
        ("long", {"type": "long", "logicalType": "time-micros"}, 1, 1),
        (S, record({"name": "z", "type": "long", "aliases": ["y"]}, name="S"), {"y": 1}, {"z": 1}),
    ],
)
def test_what_was_written_is_read_with_a_newer_schema(old: Any, new: Any, value: Any, shown: Any) -> None:
    assert not check_avro_readable(parsed(x(old)), parsed(x(new)))
    assert read(x(old), encode(x(old), {"x": value}), x(new)) == shown


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("long", "int", "x was long, and would be int"),
        ("string", ["null", "int"], "x was string, and would be none of null, int"),
        (["null", "int"], "int", "x was null, and would be int"),
        (ENUM, {**ENUM, "symbols": ["a"]}, "x had the symbol b"),
        (S, T, "x was S, and would be T"),
        (FIXED, {**FIXED, "size": 3}, "x was F, and would be F"),
        (CENTS, {**CENTS, "scale": 1}, "x was decimal(4,2), and would be decimal(4,1): what is written would have"),
        (MILLIS, MICROS, "x was timestamp-millis, and would be timestamp-micros: what is written would have another"),
        (CENTS, "string", "x was decimal(4,2), and would be string: with a logicalType, a type stays bytes"),
        (DAY, "long", "x was date, and would be long: with a logicalType, a type stays int"),
        ("int", MILLIS, "x was int, and would be timestamp-millis: with a logicalType, a type stays int"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, "x[] was long"),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, "x.* was long"),
        (S, record({"name": "z", "type": "int"}, name="S"), "x.z is new, and has no default"),
    ],
)
def test_what_a_newer_schema_can_not_read_is_said(old: Any, new: Any, why: str) -> None:
    assert check_avro_readable(parsed(x(old)), parsed(x(new)))[0].startswith(why)


def test_a_field_that_is_no_more_is_passed_over() -> None:
    old = record({"name": "gone", "type": {"type": "array", "items": "string"}}, {"name": "x", "type": "int"})
    assert read(old, encode(old, {"gone": ["a"], "x": 7}), x("int")) == 7
    lacking = record({"name": "y", "type": "int"})
    assert read(lacking, long(1), x("int")) is None, "who asks is told beforehand that it can't be read"


@pytest.mark.parametrize(
    ("type", "body", "why"),
    [
        ("int", b"", "x: the body ends too early"),
        ("int", b"\x80", "x: the body ends too early"),
        ("int", long(2**31), "x: the int has more than 32 bits"),
        ("long", b"\xff" * 11, "x: a number has more than 64 bits"),
        ("long", b"\xff" * 9 + b"\x7f", "x: a number has more than 64 bits"),
        ("string", long(-1), "x: the body ends too early"),
        ("string", long(5) + b"a", "x: the body ends too early"),
        ("string", text(b"\xff"), "x: the text is no UTF-8"),
        ("boolean", b"\x02", "x: a boolean is 0 or 1"),
        (FIXED, b"a", "x: the body ends too early"),
        (ENUM, long(2), "x: the enum has no such symbol"),
        (ENUM, long(-1), "x: the enum has no such symbol"),
        (["null", "int"], long(2), "x: a union has no such type"),
        (CENTS, text(b"\x7f\xff"), "x: the number has more than 4 digits"),
        (DAY, long(2**31 - 1), "x: the date is before the year 1"),
        (MILLIS, long(2**62), "x: the time is before the year 1"),
        ({"type": "array", "items": "null"}, long(2**62) + long(0), "x: the body says that it has more elements"),
        ({"type": "array", "items": "null"}, long(-(2**63)) + long(0), "x: the body says that it has more elements"),
        ("int", long(1) + b"a", "the record ends at byte 1, and the body has 2"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(type: Any, body: bytes, why: str) -> None:
    with pytest.raises(Misfit) as error:
        read(x(type), body)
    assert str(error.value).startswith(why)


def test_what_a_reader_has_no_type_for_is_a_misfit() -> None:
    for old, new, value in ((["int", "string"], "int", "a"), ("string", ["null", "int"], "a")):
        with pytest.raises(Misfit, match="of a type that the schema doesn't have"):
            read(x(old), encode(x(old), {"x": value}), x(new))


def test_what_a_logical_type_that_was_added_has_no_value_for_is_a_misfit_for_it_alone() -> None:
    assert read(x("long"), long(0), x(MILLIS)) == datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(Misfit, match="x: the time is before the year 1, or after 9999"):
        read(x("long"), long(2**62), x(MILLIS))


def test_an_enum_that_lost_a_symbol_is_a_misfit_for_it_alone() -> None:
    new = {**ENUM, "symbols": ["b"]}
    assert read(x(ENUM), long(1), x(new)) == "b"
    with pytest.raises(Misfit):
        read(x(ENUM), long(0), x(new))


EVERYTHING = record(
    {"name": "x", "type": ["null", "int", "string"]},
    {"name": "y", "type": {"type": "array", "items": ["null", {"type": "map", "values": "null"}]}},
    {"name": "z", "type": {"type": "array", "items": record(name="Empty")}},
    {"name": "t", "type": [MILLIS, DAY, {**CENTS}, ENUM, FIXED]},
)


@given(st.binary())
def test_any_bytes_are_a_row_or_a_misfit(body: bytes) -> None:
    with suppress(Misfit):
        read(EVERYTHING, body)


SAME = record(
    {"name": "n", "type": "long"}, {"name": "s", "type": "string"}, {"name": "d", "type": "double"},
    {"name": "x", "type": {"type": "array", "items": ["null", "long"]}},
)  # fmt: skip


@given(
    st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"])),
    st.floats(allow_nan=False), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
)  # fmt: skip
def test_what_is_written_is_read(n: int, s: str, d: float, x: list[int | None]) -> None:
    row = {"n": n, "s": s, "d": d, "x": x}
    schema = parsed(SAME)
    assert decoder_of_avro(schema, schema)(b"abc" + encode(SAME, row), 3) == row


@pytest.mark.parametrize("size", [0, 1])
def test_a_few_bytes_do_not_become_any_number_of_long_defaults(size: int) -> None:
    """Records of no bytes, or of one, that a newer schema fills up."""
    fields = [{"name": "flag", "type": "boolean"}] * size
    filled = {"name": "text", "type": "string", "default": "d" * 10_000}
    padding = {"name": "padding", "type": "bytes"}

    def read_all(count: int) -> Any:
        versions = [
            parsed(record({"name": "x", "type": {"type": "array", "items": record(*each, name="E")}}, padding))
            for each in (fields, [*fields, filled])
        ]
        body = long(count) + b"\x01" * count * size + long(0) + long(count) + b"p" * count
        return decoder_of_avro(*versions)(body, 0)["x"]

    assert [each["text"][:1] for each in read_all(10)] == ["d"] * 10
    with pytest.raises(Misfit, match="its records would get defaults"):
        read_all(DEFAULTS_CHARACTERS_MAX // 10_000 + 1)
