"""SQL92 over properties, against an evaluator that looks at one message after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.filter.sql92 import PropertyFilter
from lakemq.model.errors import InvalidFilter
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.rows import make_row, rows_to_batch
from lakemq.storage.segment.segment import Frame
from lakemq.storage.segment.slice import Slice

Message = Mapping[str, str]
Truth = bool | None
Condition = tuple[str, Callable[[Message], Truth]]
"""A condition's text, and what it says of a message."""

VALUES = ("", "a", "ab", "A%", "5", "5.5", "-7", "10", "007", "1e3", "true", "false", "nan", "é_", "9007199254740993")
NAMES = ("p", "q", "order.id")
MESSAGES = st.lists(
    st.none() | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)), min_size=1, max_size=8
)


def matches(text: str, *messages: Message | None, **columns: Any) -> list[bool]:
    """Whether each message has these properties, or None, meets the condition."""
    rows = [make_row(body=b"", properties=dict(each) if each is not None else None, **columns) for each in messages]
    return PropertyFilter(text).matches(rows_to_batch(rows)[1]).to_pylist()


# The other evaluator -------------------------------------------------------------------------


def number(text: str | None) -> float | None:
    plain = text is not None and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text)
    return float(text) if plain and text is not None else None


def literal(value: str | float | bool) -> tuple[str, Callable[[str | None], Any]]:
    """A literal's text, and how a property is read that is compared with it."""
    if isinstance(value, bool):
        return str(value), lambda text: {"true": True, "false": False}.get((text or "").lower())
    if not isinstance(value, str):
        return f"{value:g}", number
    return "'" + value.replace("'", "''") + "'", lambda text: text


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
WORDS = ("a", "A%", "it's", "\\", "5")
NUMBERS = (5.0, 5.5, -7.0, 1000.0, 0.0)
LITERALS = st.sampled_from([*WORDS, *NUMBERS])


def quoted(name: str) -> str:
    return f'"{name}"' if name == "order.id" else name


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    name, operator = draw(st.sampled_from(NAMES)), draw(st.sampled_from(sorted(COMPARE)))
    value = draw(LITERALS | (st.booleans() if operator in ("=", "<>") else st.nothing()))
    text, read = literal(value)

    def evaluate(message: Message) -> Truth:
        found = read(message.get(name))
        return None if found is None else COMPARE[operator](found, value)

    return f"{quoted(name)} {operator} {text}", evaluate


@st.composite
def others(draw: st.DrawFn) -> Condition:
    name, kind = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["null", "between", "in", "like"]))
    said = draw(st.sampled_from(["", "NOT "]))
    values: list[Any] = draw(st.lists(st.sampled_from(draw(st.sampled_from([WORDS, NUMBERS]))), min_size=2, max_size=3))
    read = literal(values[0])[1]
    pattern, regex = draw(
        st.sampled_from([("a%", "a.*"), ("_", "."), ("%5%", ".*5.*"), ("A!%", "A!.*"), ("é\\", "é\\\\")])
    )

    def evaluate(message: Message) -> Truth:
        text = message.get(name)
        found = text if kind in ("null", "like") else read(text)
        if kind == "null":
            return (text is None) != bool(said)
        if found is None:
            return None
        if kind == "between":
            truth = values[0] <= found <= values[1]
        else:
            truth = found in values if kind == "in" else re.fullmatch(regex, str(found), re.DOTALL) is not None
        return truth != bool(said)

    texts = [literal(value)[0] for value in values]
    written = {
        "null": f"IS {said}NULL",
        "between": f"{said}BETWEEN {texts[0]} AND {texts[1]}",
        "in": f"{said}IN ({', '.join(texts)})",
        "like": f"{said}LIKE '{pattern}'",
    }[kind]
    return f"{quoted(name)} {written}", evaluate


def negated(condition: Condition) -> Condition:
    text, evaluate = condition

    def negate(message: Message) -> Truth:
        truth = evaluate(message)
        return None if truth is None else not truth

    return f"NOT ({text})", negate


def joined(pair: tuple[str, Condition, Condition]) -> Condition:
    word, (left, one), (right, other) = pair
    decides = word == "OR"

    def join(message: Message) -> Truth:
        truths = {one(message), other(message)}
        if decides in truths:
            return decides
        return None if None in truths else not decides

    return f"({left}) {word} ({right})", join


CONDITIONS = st.recursive(
    comparisons() | others(),
    lambda inner: inner.map(negated) | st.tuples(st.sampled_from(["AND", "OR"]), inner, inner).map(joined),
    max_leaves=5,
)


@given(condition=CONDITIONS, messages=MESSAGES)
def test_columns_say_what_one_message_after_the_other_says(
    condition: Condition, messages: list[dict[str, str] | None]
) -> None:
    text, evaluate = condition
    assert matches(text, *messages) == [evaluate(message or {}) is True for message in messages], text


# By hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "properties", "met"),
    [
        ("a > 9007199254740992", {"a": "9007199254740993"}, True),
        ("a = 9007199254740993", {"a": "9007199254740992"}, False),
        ("a > 5", {"a": "five"}, False),
        ("NOT a > 5", {"a": "five"}, False),
        ("flag", {"flag": "TRUE"}, True),
        ("NOT flag", {"flag": "false"}, True),
        ("flag OR a = 1", {"a": "1"}, True),
        ("a LIKE '5!%' ESCAPE '!'", {"a": "5%"}, True),
        ("a LIKE '5!%' ESCAPE '!'", {"a": "5!x"}, False),
        ("a = 'it''s'", {"a": "it's"}, True),
        ('"a b" = 1 AND c.d = 2', {"a b": "1", "c.d": "2"}, True),
        ("type = 'x' AND \"group\" = 'g' AND key = 'k'", {"type": "x", "group": "g", "key": "k"}, True),
        ("A = 1", {"a": "1"}, False),
        ("a = b", {"a": "x", "b": "x"}, True),
        ("1 = 1", {}, True),
        ("TRUE", {}, True),
        ("NULL", {}, False),
        ("a = NULL", {"a": "1"}, False),
        ("a IS NULL", {}, True),
        ("a IS TRUE", {"a": "true"}, True),
        ("a IN (1, 'x')", {"a": "x"}, True),
        ("-5 < a", {"a": "-4.5"}, True),
        ("a >= 1 AND a <= 3 -- a comment", {"a": "2"}, True),
    ],
)
def test_a_condition_is_met_or_not(text: str, properties: dict[str, str], met: bool) -> None:
    assert matches(text, properties) == [met]


def test_tags_and_keys_have_the_names_that_rocketmq_gives_them() -> None:
    assert matches("TAGS = 'T' AND KEYS = 'k1 k2'", {}, tag="T", keys=["k1", "k2"]) == [True]
    assert matches("TAGS IS NULL AND KEYS IS NULL", {"TAGS": "x", "KEYS": "y"}) == [True]
    assert matches("KEYS LIKE '%k2'", None, None, keys=["k1", "k2"]) == [True, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a >", "'>' can't be understood here, at character 3"),
        ("a = 1 AND", "at character 7"),
        ("a = 'x", "has no end"),
        ("lower(a) = 'x'", "lower is not allowed in a filter, at character 1"),
        ("b = 1 AND f(a) = 1", "not allowed in a filter, at character 11"),
        ("a + 1 = 2", "add is not allowed"),
        ("CAST(a AS INT) = 1", "cast is not allowed"),
        ("a IN (SELECT 1)", "not allowed"),
        ("a IN ()", "IN needs a list of values"),
        ("a = 1; b = 2", "another begins, at character 8"),
        ("5", "must be a condition"),
        ("a LIKE b", "must be a string literal, at character 8"),
        ("a = ?", "placeholder is not allowed"),
        ("a IS 5", "after IS there can be NULL, TRUE or FALSE"),
        ("a = 99999999999999999999", "more than 64 bits"),
        ("a.b.c = 1", "not allowed"),
        ("*", "not allowed"),
        ("(" * 40 + "a = 1" + ")" * 40, "nested deeper"),
        ("a = 'x' OR " * 2_000 + "b = 1", "at most 16384 are allowed"),
        ("a = '\ud800'", "half a surrogate pair"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidFilter, match=re.escape(said)):
        PropertyFilter(text)


SCRAPS = st.sampled_from(
    ["a", '"b c"', "'x'", "''", "5", "-1.5e3", "=", "<>", "<=", "AND", "OR", "NOT", "IN", "(", ")", ",", "LIKE", "IS",
     "NULL", "TRUE", "BETWEEN", "ESCAPE", "'!'", "*", "+", ".", "::", "[", "]", "SELECT", "CASE", ";", "--", "/*", "'",
     "\\", "@", "$", ":", "{", "}", "INTERVAL", "DATE", "EXISTS", "f(", "%", "\n", "\x00", "é"],
)  # fmt: skip


@given(st.lists(SCRAPS | st.text(max_size=3), max_size=14).map(" ".join))
def test_no_text_is_more_than_refused(text: str) -> None:
    try:
        condition = PropertyFilter(text)
    except InvalidFilter:
        return
    batch = rows_to_batch([make_row(body=b"", properties={"a": "5"}), make_row(body=b"")])[1]
    assert len(condition.matches(batch)) == 2


# Selecting -----------------------------------------------------------------------------------


def part_of(*rows: dict[str, Any], begin: int = 0, as_columns: bool = False) -> Slice:
    """A slice of a frame with these rows, from one of them on."""
    made = [make_row(body=b"", **row) for row in rows]
    content = Columns(rows_to_batch(made)[1]) if as_columns else Rows(made)
    run = Run("t", 0, 0, len(rows), 0)
    frame = Frame(Meta(KIND_MESSAGES, 0, 0, len(rows), content.mask, (run,), b"", 0, 0, 0), content)
    return Slice(frame, run, begin, len(rows) - begin)


def chosen(selector: Selector, part: Slice) -> list[int]:
    return [each.row + number for each in selector.matches(part) for number in range(each.count)]


@pytest.mark.parametrize("as_columns", [False, True])
def test_tags_and_a_condition_must_both_match(as_columns: bool) -> None:
    rows = [{"tag": tag, "properties": {"a": str(number)}} for number, tag in enumerate("ABABAB")]
    part = part_of(*rows, {"tag": None}, begin=1, as_columns=as_columns)
    assert chosen(Selector.of("A || C"), part) == [2, 4]
    assert chosen(Selector.of("*", "a > 2"), part) == [3, 4, 5]
    assert chosen(Selector.of("A||B", "a > 2 AND a < 5"), part) == [3, 4]
    assert chosen(Selector.of("A", None), part_of({"properties": {"a": "1"}})) == []
    assert chosen(Selector.of("A", "TRUE"), part_of({"properties": {"a": "1"}})) == []
    assert chosen(Selector.of(None, "a IS NULL"), part_of({}, {})) == [0, 1]


def test_a_selector_of_everything_looks_at_nothing() -> None:
    part = part_of({"tag": "A"})
    for tags in (None, "", "*", " * "):
        assert Selector.of(tags).everything
        assert Selector.of(tags).matches(part) == [part]
    assert not Selector.of(None, "TRUE").everything


def test_selectors_are_kept_and_bounded() -> None:
    assert Selector.of("A||B", "a = 1") is Selector.of("A||B", "a = 1")
    for number in range(1_100):
        Selector.of(f"T{number}")
    assert len(Selector._cached) == 1_000  # pyright: ignore[reportPrivateUsage]
    for number in range(30):
        Selector.of("*", f"a = 'x{number}" + "x" * 10_000 + "'")
    kept = Selector._cached  # pyright: ignore[reportPrivateUsage]
    assert sum(len(tags or "") + len(sql or "") for tags, sql in kept) <= 128 * 1024


@pytest.mark.parametrize("tags", ["A||", "||", "A||*", "x" * 5_000, " " * 5_000])
def test_malformed_tags_are_refused(tags: str) -> None:
    with pytest.raises(InvalidFilter, match="tags is"):
        Selector.of(tags)


def test_a_frame_of_many_is_looked_at_by_columns() -> None:
    rows = 50_000
    properties = pa.MapArray.from_arrays(
        pa.array(range(rows + 1), pa.int32()), pa.array(["a"] * rows), pa.array(map(str, range(rows)))
    )
    batch = pa.RecordBatch.from_arrays([pa.array([b""] * rows), properties], names=["body", "properties"])
    assert PropertyFilter("a BETWEEN 100 AND 199 OR a = '7'").matches(batch).true_count == 101
