"""Bodies as rows: what fits, and what is said of what doesn't."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.column_type import BIGINT, JSON, ColumnType
from lakemq.model.fit import ERROR_CHARACTERS_MAX, Misfit, decoder_of_json, fitting
from lakemq.model.json_schema import parse_json_schema

INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
CENTS = {"type": "number", "multipleOf": 0.01}
TIME, DATE = {"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}
BYTES = {"type": "string", "contentEncoding": "base64"}


def read(said: Any, body: bytes, **more: Any) -> Any:
    """The value of the property `x`."""
    return decoder_of_json(parse_json_schema({"properties": {"x": said}, **more}).columns)(body)["x"]


@pytest.mark.parametrize(
    ("said", "text", "value"),
    [
        ({"type": "boolean"}, "true", True),
        (INTEGER, "-9223372036854775808", -(2**63)),
        (INTEGER, "3.0", 3),
        (INTEGER, "null", None),
        (NUMBER, "3", 3.0),
        (NUMBER, "1e3", 1000.0),
        (CENTS, "0.10", Decimal("0.10")),
        (CENTS, "7", Decimal("7.00")),
        (CENTS, "1e3", Decimal(1000)),
        (TEXT, '"\\u00e9"', "é"),
        ({}, '{"a":[1,"é"]}', '{"a":[1,"é"]}'),
        ({}, '"a"', '"a"'),
        (TIME, '"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (TIME, '"2026-01-02T03:04:05.123456789+01:00"', datetime(2026, 1, 2, 2, 4, 5, 123456, UTC)),
        (TIME, '"2026-01-02 03:04:05"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (DATE, '"2026-01-02"', date(2026, 1, 2)),
        (BYTES, '"AAE="', b"\x00\x01"),
        ({"type": "array", "items": INTEGER}, "[1,null]", [1, None]),
        ({"type": "object", "additionalProperties": INTEGER}, '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        ({"properties": {"y": INTEGER}}, '{"y":1,"z":2}', {"y": 1}),
    ],
)
def test_a_value_fits_its_type(said: Any, text: str, value: Any) -> None:
    assert read(said, f'{{"x":{text},"more":1}}'.encode()) == value
    assert read(said, b"{}") is None


@pytest.mark.parametrize(
    ("said", "text", "why"),
    [
        ({"type": "boolean"}, "1", "x: expected a boolean, found integer"),
        (INTEGER, '"1"', "x: expected an integer, found string"),
        (INTEGER, "true", "x: expected an integer, found boolean"),
        (INTEGER, "1.5", "x: expected an integer, found number"),
        (INTEGER, "9223372036854775808", "x: the integer has more than 64 bits"),
        (INTEGER, "1e999", "x: expected an integer, found number"),
        (NUMBER, "false", "x: expected a number, found boolean"),
        (NUMBER, "1e999", "x: the number is too large"),
        (NUMBER, "1" + "0" * 400, "x: the number is too large"),
        (CENTS, "0.001", "x: the number has more than 2 digits behind the point"),
        (CENTS, "1e36", "x: the number has more than 36 digits"),
        (CENTS, "1e999999999", "x: the number has more than 36 digits"),
        (CENTS, "[]", "x: expected a number, found array"),
        (TEXT, "{}", "x: expected text, found object"),
        (TEXT, '"\\ud800"', "x: the text has half of a character in it"),
        ({}, '["\\ud800"]', "x: the text has half of a character in it"),
        ({}, "1e999", "x: a number is too large"),
        (TIME, "1", "x: expected a time, found integer"),
        (TIME, '"yesterday"', "x: the text is no date-time of RFC 3339"),
        (TIME, '"2026-13-02T03:04:05Z"', "x: the text is no date-time of RFC 3339"),
        (TIME, '"0001-01-01T00:00:00+01:00"', "x: the text is no date-time of RFC 3339"),
        (DATE, "1", "x: expected a date, found integer"),
        (DATE, '"20260102"', "x: the text is no date of RFC 3339"),
        (DATE, '"2026-02-30"', "x: the text is no date of RFC 3339"),
        (BYTES, "1", "x: expected base64, found integer"),
        (BYTES, '"?"', "x: the text is no base64"),
        ({"type": "array", "items": INTEGER}, "1", "x: expected an array, found integer"),
        ({"type": "array", "items": {"properties": {"y": INTEGER}}}, '[{},{"y":""}]', "x[1].y: expected an integer"),
        ({"type": "object"}, "1", "x: expected an object, found integer"),
        ({"type": "object", "additionalProperties": INTEGER}, '{"a":""}', "x.a: expected an integer, found string"),
        ({"properties": {"y": INTEGER}}, "1", "x: expected an object, found integer"),
        ({"properties": {"y": INTEGER}, "required": ["y"]}, "{}", "x.y: it is required, and missing"),
        ({"properties": {"y": INTEGER}, "required": ["y"]}, '{"y":null}', "x.y: it may not be null"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(said: Any, text: str, why: str) -> None:
    with pytest.raises(Misfit) as error:
        read(said, f'{{"x":{text}}}'.encode())
    assert str(error.value).startswith(why)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is empty"),
        (b"\xff", "the body is no UTF-8"),
        (b"{", "the body is no JSON: "),
        (b"NaN", "the body is no JSON: it has NaN in it"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b"9" * 5_000, "the body has a number that is too long"),
        (b"[]", "expected an object, found array"),
    ],
)
def test_a_body_that_is_none_is_said_to_be_so(body: bytes, why: str) -> None:
    with pytest.raises(Misfit, match=why):
        read({}, body)


def test_numbers_that_no_decimal_can_be_are_too_long() -> None:
    with pytest.raises(Misfit, match="too long"):
        read(CENTS, b'{"x":1e99999999999999999999}')


def test_what_is_deep_is_text_or_has_an_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Misfit, match="nested too deeply"):
        fitting(ColumnType(JSON))(deep)


def test_an_error_is_short_whatever_the_body_says() -> None:
    for body in ({"x": {"k" * 1_000: ""}}, {"x": {f"{'k' * 50}": ""}}):
        with pytest.raises(Misfit) as error:
            read({"type": "object", "additionalProperties": INTEGER}, json.dumps(body).encode())
        assert len(str(error.value)) <= ERROR_CHARACTERS_MAX


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyab"), inner, max_size=3),
    max_leaves=8,
)
ALL = {
    "x": INTEGER, "y": {"properties": {"a": CENTS, "b": TIME, "x": {"type": "array", "items": {}}}},
    "a": {"type": "object", "additionalProperties": TEXT}, "b": BYTES,
}  # fmt: skip


@given(st.dictionaries(st.sampled_from("xyab"), JSON_VALUES))
def test_any_json_is_a_row_or_a_misfit(value: Any) -> None:
    decode = decoder_of_json(parse_json_schema({"properties": ALL}).columns)
    with suppress(Misfit):
        assert decode(json.dumps(value).encode()).keys() == ALL.keys()


@given(st.binary())
def test_any_bytes_are_a_row_or_a_misfit(body: bytes) -> None:
    with suppress(Misfit):
        read(INTEGER, body)


@given(
    st.binary(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, max_value=10**20, min_value=-(10**20)),
)
def test_what_is_written_is_read(content: bytes, at: datetime, cents: Decimal) -> None:
    assert read(BYTES, json.dumps({"x": base64.b64encode(content).decode()}).encode()) == content
    assert read(TIME, json.dumps({"x": at.isoformat()}).encode()) == at
    assert read(CENTS, f'{{"x":{cents}}}'.encode()) == cents
    assert at.utcoffset() == timedelta()


def test_what_is_said_of_a_key_that_is_half_a_character_can_be_written_down() -> None:
    assert str(Misfit("it doesn't fit").within(".\ud800")) == "?: it doesn't fit"


def test_a_float_that_is_no_exact_integer_is_none() -> None:
    fit = fitting(ColumnType(BIGINT))
    assert fit(float(2**53 - 1)) == 2**53 - 1
    with pytest.raises(Misfit):
        fit(float(2**53))  # 2**53 + 1 is the same float
