"""What a filter says, what it refuses and where, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakemq.gateway.filter import Node, column, compile_filter
from lakemq.gateway.filter.grammar import CHARACTERS_MAX
from lakemq.model.errors import InvalidFilter

TEXT_MAP = pa.map_(pa.string(), pa.string())
COLUMNS: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "tag": pa.string(),
    "text": pa.string(),
    "keys": pa.list_(pa.string()),
    "properties": TEXT_MAP,
    "body": pa.binary(),
    "store_time": pa.timestamp("ms", tz="UTC"),
    "store_date": pa.date32(),
    "size": pa.int32(),
}
ROW: dict[str, Any] = {
    "position": 5,
    "tag": "a",
    "text": None,
    "keys": ["k1", "k2"],
    "properties": [("x", "7"), ("odd name", "v")],
    "body": b"hello",
    "store_time": datetime(2020, 1, 1, 12, tzinfo=UTC),
    "store_date": date(2020, 1, 1),
    "size": 3,
}


def batch_of(**changes: Any) -> pa.RecordBatch:
    """One row: `ROW`, but for the changes."""
    row = ROW | changes
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name]], data_type) for name, data_type in COLUMNS.items()], names=list(COLUMNS)
    )


def evaluate(text: str, **changes: Any) -> bool | None:
    """What the filter says of one row."""
    return compile_filter(text, COLUMNS).evaluate(batch_of(**changes))[0].as_py()


@pytest.mark.parametrize(
    "text",
    [
        "tag = 'a' -- a comment",
        "/* one */ tag = 'a' /* more */;",
        "TAG = 'a' and `tag` = \"a\"",
        "properties['x'] = '7' AND properties.x = 7 AND element_at(properties, 'x') > 6",
        "properties['odd name'] = 'v' AND properties.`odd name` = 'v' AND properties['none'] IS NULL",
        "array_contains(keys, 'k2') AND NOT array_contains(keys, 'k')",
        "size(keys) = 2 AND cardinality(keys) = 2 AND size(properties) = 2",
        "body = 'hello' AND body LIKE 'h%o' AND 'hello' = body AND length(body) = 5 AND upper(body) = 'HELLO'",
        "tag IN ('b', 'a', NULL) AND position IN (4, 5) AND position NOT IN (6) AND size IN (1 + 2, position)",
        "position BETWEEN 5 AND 5 AND position NOT BETWEEN 6 AND 5 AND position BETWEEN '1' AND 9",
        "store_time = TIMESTAMP '2020-01-01 12:00:00' AND store_time = TIMESTAMP '2020-01-01T13:00:00.000+01:00'",
        "store_time > DATE '2020-01-01' AND store_date = DATE '2020-01-01' AND store_date < '2020-01-02'",
        "store_time BETWEEN '2020' AND '2020-1-2' AND store_time > '2020-01-01 11:59:59.999999'",
        "CAST(store_time AS BIGINT) = 1577880000 AND CAST(store_time AS STRING) = '2020-01-01 12:00:00'",
        "CAST(1577880000 AS TIMESTAMP) = store_time AND CAST(store_time AS DATE) = store_date",
        "CAST('2020-02-29' AS DATE) IS NOT NULL AND CAST(2.9 AS BIGINT) = 2 AND CAST('1e3' AS DOUBLE) = 1000",
        "CAST(position AS STRING) || '!' = '5!' AND CAST(tag = 'a' AS BIGINT) = 1 AND CAST('YES' AS BOOLEAN)",
        "position + 1 * 2 - 3 = 4 AND (position + 1) * 2 = 12 AND -position + 6 = 1 AND position / 2 = 2.5",
        "9223372036854775807 + position IS NULL AND -9223372036854775808 < position AND position / 0 IS NULL",
        "text IS NULL AND text <=> NULL AND NOT text <=> 'x' AND (text = 'x') IS NULL",
        "text IS NOT DISTINCT FROM NULL AND tag IS DISTINCT FROM text",
        "(text = 'x' AND FALSE) = FALSE AND (text = 'x' OR TRUE) AND (text = 'x') IS NOT TRUE",
        "concat(tag, position, 'c') = 'a5c' AND tag || 'b' = 'ab' AND concat(tag, text) IS NULL",
        "substring('abcdef', 2, 3) = 'bcd' AND substr('abcdef', -2) = 'ef' AND substring('abc', -5, 3) = 'a'",
        "trim('  a ') = 'a' AND ltrim(' a ') = 'a ' AND rtrim(' a ') = ' a' AND lower('ÄB') = 'äb'",
        "'it''s' = \"it's\" AND 'a\\nb' LIKE 'a_b' AND '\\u0041' = 'A' AND 'x' 'y' = 'xy'",
        "'a%' LIKE 'a\\%' AND 'ab' NOT LIKE 'a\\%' AND '50%' LIKE '50!%' ESCAPE '!' AND 'AB' ILIKE 'a_'",
        "'order-17' RLIKE '^order-[0-9]+$' AND NOT 'a\\nb' RLIKE 'a.b' AND tag NOT RLIKE 'b'",
        "1L = 1 AND 1.5D = 1.5 AND 1e2 = 100 AND .5 = 0.5 AND +1 = 1 AND - -1 = 1",
        "tag = 'x' OR NOT (tag = 'y') AND ! (tag = 'z')",
    ],
)
def test_a_true_predicate_matches(text: str) -> None:
    assert evaluate(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "text = 'a'",
        "text LIKE '%'",
        "tag > NULL",
        "tag IN ('b', NULL)",
        "tag NOT IN ('b', NULL)",
        "tag LIKE NULL",
        "tag = 1",
        "NULL",
        "CAST(text AS BIGINT) = 1",
        "properties['none'] = 'x'",
        "text BETWEEN 'a' AND 'b'",
        "substring(tag, NULL) = 'a'",
        "NOT text",
        "size(NULL) = 1",
        "text RLIKE NULL",
        "properties[NULL] = 'a'",
    ],
)
def test_what_nobody_knows_is_null_and_no_match(text: str) -> None:
    compiled = compile_filter(text, COLUMNS)
    assert compiled.evaluate(batch_of()).to_pylist() == [None]
    assert compiled.matches(batch_of()).to_pylist() == [False]


@pytest.mark.parametrize(
    ("value", "whole", "real", "truth"),
    [
        ("12", 12, 12.0, None),
        (" +0012 ", 12, 12.0, None),
        ("-9223372036854775808", -(2**63), -(2.0**63), None),
        ("9223372036854775808", None, 2.0**63, None),
        ("0x1F", None, None, None),
        ("1.5", None, 1.5, None),
        (".5e1", None, 5.0, None),
        ("NaN", None, None, None),
        ("", None, None, None),
        ("1", 1, 1.0, True),
        ("No", None, None, False),
        (" true ", None, None, True),
    ],
)
def test_a_string_is_read_as_a_number_or_a_boolean(
    value: str, whole: int | None, real: float | None, truth: bool | None
) -> None:
    assert evaluate("CAST(tag AS BOOLEAN)", tag=value) is truth
    if whole is None:
        assert evaluate("CAST(tag AS BIGINT) IS NULL", tag=value)
    else:
        assert evaluate(f"CAST(tag AS BIGINT) = {whole}", tag=value)
    if real is None:
        assert evaluate("CAST(tag AS DOUBLE) IS NULL", tag=value)
    else:
        assert evaluate(f"CAST(tag AS DOUBLE) = {real}", tag=value)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2020", "2020-01-01 00:00:00"),
        ("2020-2", "2020-02-01 00:00:00"),
        ("2020-02-29", "2020-02-29 00:00:00"),
        ("2019-02-29", None),
        ("1900-02-29", None),
        ("2000-02-29", "2000-02-29 00:00:00"),
        ("2020-04-31", None),
        ("2020-13-01", None),
        ("2020-01-01 1:2", "2020-01-01 01:02:00"),
        ("2020-01-01T01:02:03.1234567Z", "2020-01-01 01:02:03.123456"),
        ("2020-01-01 01:02:03.5 UTC", "2020-01-01 01:02:03.5"),
        ("2020-01-01 01:02:03+02:30", "2019-12-31 22:32:03"),
        ("2020-01-01 01:02:03-1:00", "2020-01-01 02:02:03"),
        ("2020-01-01 24:00:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_string_is_read_as_a_time(value: str, time: str | None) -> None:
    if time is None:
        assert evaluate("CAST(tag AS TIMESTAMP) IS NULL", tag=value)
    else:
        assert evaluate(f"CAST(CAST(tag AS TIMESTAMP) AS STRING) = '{time}'", tag=value)


def test_a_body_that_is_not_text_is_null_and_the_others_are_not() -> None:
    bodies = [b"abc", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", "é€😀".encode(), b"", b"a\x00c"]
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"])
    compiled = compile_filter("body >= ''", {"body": pa.binary()})
    assert compiled.evaluate(batch).to_pylist() == [True, None, None, None, True, True, True]
    assert compile_filter("body IS NULL", {"body": pa.binary()}).matches(batch).true_count == 0


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("colour = 'red'", "no column 'colour'", 1),
        ("tag = 'a' AND colour = 'red'", "no column 'colour'", 15),
        ("tag = 'a' AND m.tag = 'b'", "no column 'm'", 15),
        ("tag = 'a'; tag = 'b'", "another begins", 12),
        ("tag = 'a' tag", "'tag' can't be understood", 11),
        ("SELECT 1", "'SELECT' can't be understood", 1),
        ("tag = (SELECT 1)", "subquery is not allowed", 15),
        ("tag IN (SELECT 1)", "query is not allowed", 1),
        ("EXISTS(SELECT 1)", "exists is not allowed", 15),
        ("tag = f(1)", "no function 'f'", 7),
        ("tag = upper(reverse(tag))", "reverse is not allowed", 13),
        ("CASE WHEN TRUE THEN TRUE END", "case is not allowed", 1),
        ("tag", "'a condition'", 1),
        ("position > 'x'", "'x' is not a bigint", 12),
        ("store_time > 'x'", "'x' is not a timestamp", 14),
        ("store_time = TIMESTAMP '2020-02-30'", "is not a timestamp", 24),
        ("CAST('12.9' AS BIGINT) = 1", "'12.9' is not a bigint", 6),
        ("store_time > 5", "a timestamp can't be compared with a bigint", 1),
        ("keys = 'k'", "an array of strings can't be compared", 1),
        ("TRUE = 1", "a boolean can't be compared with a bigint", 1),
        ("position AND TRUE", "a bigint is no condition", 1),
        ("keys[0] = 'k'", "an array of strings has no entries by name", 1),
        ("properties[tag] = 'k'", "must be a string literal", 12),
        ("array_contains(keys, tag)", "must be a string literal", 22),
        ("tag LIKE text", "must be a string literal", 10),
        ("tag LIKE 'a\\\\b'", "can follow", 10),
        ("tag LIKE 'a' ESCAPE 'xx'", "ESCAPE takes one character", 1),
        ("tag RLIKE '('", "no regular expression", 11),
        ("tag RLIKE '(?=x)'", "no regular expression", 11),
        ("tag RLIKE '" + "a" * 1001 + "'", "more than 1000 characters", 11),
        ("store_time + 1 = 2", "no arithmetic with a timestamp", 1),
        ("tag = 'a' = TRUE", "in parentheses", 1),
        ("position = 5 IN (TRUE)", "in parentheses", 12),
        ("substring(tag, size) = 'a'", "must be a whole number", 16),
        ("CAST(tag AS DECIMAL(3, 1)) = 1", "no cast to decimal", 6),
        ("CAST(1.5 AS STRING) = '1.5'", "a double can't be made a string", 6),
        ("position = 9223372036854775808", "more than 64 bits", 12),
        ("position < 1e400", "too large", 12),
        ("tag = '\ud800'", "half a surrogate", 8),
        ("tag = ?", "placeholder is not allowed", 1),
        ("tag = @x", "parameter is not allowed", 1),
        ("*", "star is not allowed", 1),
        ("position & 1 = 1", "bitwise and is not allowed", 1),
        ("tag IN ()", "IN needs a list", 1),
        ("trim(BOTH 'x' FROM tag) = 'a'", "not allowed with trim", 20),
    ],
)
def test_what_is_not_allowed_is_refused_with_its_place(text: str, what: str, at: int) -> None:
    with pytest.raises(InvalidFilter) as caught:
        compile_filter(text, COLUMNS)
    assert what.strip("'") in caught.value.detail
    assert caught.value.detail.endswith(f", at character {at}") or f", at character {at};" in caught.value.detail


@pytest.mark.parametrize(
    "text", ["", "  \n", "-- just a comment", "tag = 'a", "/* a", "(" * 5, "tag =", "tag = = 'a'", ";"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        compile_filter(text, COLUMNS)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "tag = 'a'" + ")" * 5000,
        "NOT " * 4000 + "TRUE",
        "- " * 8000 + "position = 1",
        "CASE " * 3000,
        "CAST(" * 3000,
        "tag" + "::int" * 3000 + " = 1",
        " + ".join(["position"] * 1000) + " = 1",
        "concat(" * 2000 + "tag" + ")" * 2000 + " = 'a'",
        "properties" + "['x']" * 3000 + " = 'a'",
        "array<" * 2500,
        "a." * 8000,
    ],
)
def test_what_is_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        compile_filter(text, COLUMNS)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["tag = 'x'"] * 1000),
        " AND ".join(["tag = 'a'"] * 1000),
        "tag IN (" + ", ".join(["'x'"] * 2000) + ")",
        "(" * 20 + "tag = 'a'" + ")" * 20,
        "tag || " * 1000 + "'x' = 'x'",
    ],
)
def test_what_is_long_but_not_deep_is_taken(text: str) -> None:
    assert evaluate(text) in (True, False)


def test_a_text_that_is_too_long_is_refused() -> None:
    fitting = "tag = '" + "x" * (CHARACTERS_MAX - 8) + "'"
    assert evaluate(fitting) is False
    with pytest.raises(InvalidFilter, match=f"at most {CHARACTERS_MAX}"):
        compile_filter(fitting + " ", COLUMNS)


def test_a_concat_that_makes_too_much_of_a_batch_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * 1_000_000], pa.binary())], names=["body"])
    compiled = compile_filter(" || ".join(["body"] * 100) + " = 'x'", {"body": pa.binary()})
    with pytest.raises(InvalidFilter, match="concat makes more"):
        compiled.evaluate(batch)


def test_a_filter_names_the_columns_it_needs() -> None:
    assert compile_filter("TAG = 'a' AND size(properties) > 1", COLUMNS).columns == {"tag", "properties"}
    assert compile_filter("1 = 1", COLUMNS).columns == frozenset()


def test_a_caller_may_say_what_names_mean() -> None:
    def resolve(name: str, at: int) -> Node | None:
        return column("text", pa.string(), at) if name == "colour" else None

    compiled = compile_filter("colour = 'red'", {}, resolve)
    assert compiled.evaluate(batch_of(text="red")).to_pylist() == [True]
    with pytest.raises(InvalidFilter, match="'tag'"):
        compile_filter("tag = 'a'", {}, resolve)


def test_an_empty_batch_has_no_matches() -> None:
    assert compile_filter("tag = 'a'", COLUMNS).matches(batch_of().slice(0, 0)).to_pylist() == []
    assert compile_filter("TRUE", COLUMNS).matches(batch_of().slice(0, 0)).to_pylist() == []


def test_the_parser_is_imported_with_the_first_filter_and_not_before() -> None:
    script = "import sys, lakemq.gateway.process.app; assert 'sqlglot' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
