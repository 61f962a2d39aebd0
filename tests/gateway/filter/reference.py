"""What a filter must say, row by row: random predicates as text, each with a plain function that
computes it for one row. Nothing here knows Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TEXT_MAP = pa.map_(pa.string(), pa.string())
COLUMNS: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "reconsume_times": pa.int32(),
    "tag": pa.string(),
    "real_topic": pa.string(),
    "keys": pa.list_(pa.string()),
    "properties": TEXT_MAP,
    "body": pa.binary(),
    "store_time": pa.timestamp("us", tz="UTC"),
}
Row = dict[str, Any]
WHOLE_LEAST, WHOLE_LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Expected:
    """A predicate or value as SQL, and what it is for a row."""

    sql: str
    of: Callable[[Row], Any]


# Rows ----------------------------------------------------------------------------------------

words = st.one_of(
    st.sampled_from(
        ["", "a", "A", "ab", "abc", "a%b", "a_b", "ä", "7", "-3", " 12 ", "1.5", "true", "x'y", "a\nb", "\\"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
wholes = st.one_of(st.integers(-3, 9), st.sampled_from([WHOLE_LEAST, WHOLE_LARGEST, 2**62, -(2**53) - 1]))
times = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
rows = st.fixed_dictionaries(
    {
        "position": wholes,
        "reconsume_times": st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3),
        "tag": st.none() | words,
        "real_topic": st.none() | words,
        "keys": st.none() | st.lists(words, max_size=3),
        "properties": st.none() | st.dictionaries(st.sampled_from(["x", "y", "é"]), words, max_size=3),
        "body": words.map(str.encode) | st.binary(max_size=5),
        "store_time": times,
    }
)


def to_batch(messages: list[Row]) -> pa.RecordBatch:
    """The rows as the gateway has them: a slice of something larger."""
    padding: Row = {**dict.fromkeys(COLUMNS), "body": b"", "properties": {"x": "1"}, "keys": ["k"]}
    padded = [padding, *messages, padding]
    columns = [
        pa.array([_pairs(row[name]) if name == "properties" else row[name] for row in padded], data_type)
        for name, data_type in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS)).slice(1, len(messages))


def _pairs(value: dict[str, str] | None) -> list[tuple[str, str]] | None:
    return None if value is None else list(value.items())


# Values --------------------------------------------------------------------------------------


def quote(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def braced(sql: str) -> str:
    """SQL for a template of `call`."""
    return sql.replace("{", "{{").replace("}", "}}")


def text_of(value: bytes) -> str | None:
    """A body's text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def to_whole(text: str | None) -> int | None:
    """A string as a bigint."""
    if text is None or not re.fullmatch(r"[\t\n\v\f\r ]*[+-]?0*[0-9]{1,19}[\t\n\v\f\r ]*", text):
        return None
    return fit(int(text))


def to_real(text: str | None) -> float | None:
    """A string as a double."""
    pattern = r"[\t\n\v\f\r ]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})?|inf(inity)?)[\t\n\v\f\r ]*"
    return float(text) if text is not None and re.fullmatch(pattern, text, re.IGNORECASE) else None


def fit(value: int) -> int | None:
    """A bigint, unless it overflows."""
    return value if WHOLE_LEAST <= value <= WHOLE_LARGEST else None


def whole_body(value: Expected) -> Expected:
    """The value, but a body as it is: one that isn't UTF-8 is there all the same."""
    return column("body") if value.sql == "body" else value


def lift(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, null when one of its arguments is."""
    return lambda *values: None if any(value is None for value in values) else function(*values)


def column(name: str) -> Expected:
    """A column by its name."""
    return Expected(name, lambda row: row[name])


def call(sql: str, function: Callable[..., Any], *operands: Expected) -> Expected:
    """`sql` with the operands in its `{}`, and the function of their values."""
    text = sql.format(*[operand.sql for operand in operands])
    return Expected(text, lambda row: function(*[operand.of(row) for operand in operands]))


def literal(sql: str, value: Any) -> Expected:
    """A constant."""
    return Expected(sql, lambda _: value)


def entry(name: str) -> Expected:
    """A property."""
    return Expected(f"properties[{quote(name)}]", lambda row: (row["properties"] or {}).get(name))


text_leaves = st.one_of(
    st.sampled_from([column("tag"), column("real_topic"), entry("x"), entry("é"), entry("none")]),
    st.just(Expected("body", lambda row: text_of(row["body"]))),
    words.map(lambda word: literal(quote(word), word)),
    st.just(literal("NULL", None)),
)


def _substring(text: str, begin: int, count: int) -> str:
    start = begin - 1 if begin > 0 else len(text) + begin if begin < 0 else 0
    return text[max(start, 0) : max(start + count, 0)] if count > 0 else ""


def larger_texts(children: st.SearchStrategy[Expected]) -> st.SearchStrategy[Expected]:
    """Strings made of strings."""
    return st.one_of(
        children.map(lambda child: call("trim({})", lift(lambda text: text.strip(" ")), child)),
        st.builds(lambda *two: call("({} || {})", lift(lambda one, other: one + other), *two), children, children),
        st.builds(lambda *two: call("concat({}, {})", lift(lambda one, other: one + other), *two), children, children),
        st.builds(
            lambda child, begin, count: call(
                f"substring({{}}, {begin}, {count})", lift(lambda text: _substring(text, begin, count)), child
            ),
            children,
            st.integers(-4, 4),
            st.integers(-1, 4),
        ),
    )


texts = st.recursive(text_leaves, larger_texts, max_leaves=4)
whole_leaves = st.one_of(
    st.sampled_from([column("position"), column("reconsume_times"), literal("NULL", None)]),
    wholes.map(lambda number: literal(f"({number})", number)),
    texts.map(lambda text: call("length(concat({}, ''))", lift(len), text)),
    st.sampled_from(["keys", "properties"]).map(lambda name: call("size({})", lift(len), column(name))),
    st.just(Expected("length(body)", lambda row: len(row["body"]))),
)


def larger_wholes(children: st.SearchStrategy[Expected]) -> st.SearchStrategy[Expected]:
    """Whole numbers made of whole numbers."""
    operations: dict[str, Callable[[int, int], int]] = {
        "({} + {})": lambda one, other: one + other,
        "({} - {})": lambda one, other: one - other,
        "({} * {})": lambda one, other: one * other,
    }
    return st.one_of(
        st.builds(
            lambda sql, *two: call(sql, lift(lambda *values: fit(operations[sql](*values))), *two),
            st.sampled_from(list(operations)),
            children,
            children,
        ),
        children.map(lambda child: call("(- {})", lift(lambda value: fit(-value)), child)),
        children.map(lambda child: call("cast({} AS int)", lift(_to_int), child)),
    )


def _to_int(value: int) -> int | None:
    return value if -(2**31) <= value < 2**31 else None


whole_values = st.recursive(whole_leaves, larger_wholes, max_leaves=4)
time_values = st.one_of(
    st.just(column("store_time")),
    times.map(lambda time: literal(f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}'", time)),
)

# Conditions ----------------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "==": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def encoded(value: Any) -> Any:
    """What strings are ordered by: their bytes."""
    return value.encode() if isinstance(value, str) else value


def compared(values: st.SearchStrategy[Expected]) -> st.SearchStrategy[Expected]:
    """Comparisons of values of one type."""

    def compare(operator: str, one: Expected, other: Expected) -> Expected:
        function = COMPARISONS[operator]
        return call(f"{{}} {operator} {{}}", lift(lambda a, b: function(encoded(a), encoded(b))), one, other)

    def between(negated: str, one: Expected, low: Expected, high: Expected) -> Expected:
        def of(value: Any, least: Any, most: Any) -> bool | None:
            above = lift(lambda a, b: encoded(a) >= encoded(b))(value, least)
            below = lift(lambda a, b: encoded(a) <= encoded(b))(value, most)
            return negation(every(above, below)) if negated else every(above, below)

        return call(f"{{}} {negated} BETWEEN {{}} AND {{}}", of, one, low, high)

    def among(negated: str, one: Expected, choices: list[Expected]) -> Expected:
        def of(value: Any, *others: Any) -> bool | None:
            found = some(*[lift(lambda a, b: a == b)(value, other) for other in others])
            return negation(found) if negated else found

        listed = ", ".join(["{}"] * len(choices))
        return call(f"{{}} {negated} IN ({listed})", of, one, *choices)

    negations = st.sampled_from(["", "NOT"])
    return st.one_of(
        st.builds(compare, st.sampled_from(list(COMPARISONS)), values, values),
        st.builds(lambda *two: call("{} <=> {}", lambda one, other: one == other, *two), values, values),
        st.builds(between, negations, values, values, values),
        st.builds(among, negations, values, st.lists(values, min_size=1, max_size=4)),
        values.map(lambda value: call("{} IS NULL", lambda one: one is None, whole_body(value))),
        values.map(lambda value: call("{} IS NOT NULL", lambda one: one is not None, whole_body(value))),
    )


def _matches(text: str, pattern: str) -> bool:
    """LIKE, as its definition says: `\\` escapes."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(_matches(text[begin:], rest) for begin in range(len(text) + 1))
    if head == "_":
        return bool(text) and _matches(text[1:], rest)
    if head == "\\":
        head, rest = rest[0], rest[1:]
    return text.startswith(head) and _matches(text[1:], rest)


patterns = st.lists(st.sampled_from(["a", "b", "%", "_", "\\%", "\\_", "\\\\", "ä", "\n", "."]), max_size=5).map(
    "".join
)


def _like(negated: str, text: Expected, pattern: str) -> Expected:
    def of(value: str | None) -> bool | None:
        found = None if value is None else _matches(value, pattern)
        return negation(found) if negated else found

    return call(f"{{}} {negated} LIKE {braced(quote(pattern))}", of, text)


def _converted() -> st.SearchStrategy[Expected]:
    """Comparisons of a string with a number: the string is read as one."""

    def compare(operator: str, text: Expected, number: int) -> Expected:
        function = COMPARISONS[operator]
        return call(f"{{}} {operator} {number}", lift(lambda a: lift(function)(to_whole(a), number)), text)

    def compare_real(operator: str, text: Expected, number: float) -> Expected:
        function = COMPARISONS[operator]
        return call(f"{{}} {operator} {number:.1f}", lift(lambda a: lift(function)(to_real(a), number)), text)

    # A constant that is no number is refused when it is compiled: only what a row says is taken.
    columns = st.sampled_from([column("tag"), entry("x"), Expected("body", lambda row: text_of(row["body"]))])
    operators = st.sampled_from(list(COMPARISONS))
    halves = st.integers(-6, 30).map(lambda number: number / 2)
    return st.one_of(
        st.builds(compare, operators, columns, st.integers(-3, 12)), st.builds(compare_real, operators, columns, halves)
    )


def every(*values: bool | None) -> bool | None:
    """AND."""
    return False if False in values else None if None in values else True


def some(*values: bool | None) -> bool | None:
    """OR."""
    return True if True in values else None if None in values else False


def negation(value: bool | None) -> bool | None:
    """NOT."""
    return None if value is None else not value


condition_leaves = st.one_of(
    compared(texts),
    compared(whole_values),
    compared(time_values),
    st.builds(_like, st.sampled_from(["", "NOT"]), texts, patterns),
    _converted(),
    words.map(
        lambda word: call(
            f"array_contains({{}}, {braced(quote(word))})", lift(lambda keys: word in keys), column("keys")
        )
    ),
    st.sampled_from([literal("TRUE", True), literal("false", False), literal("NULL", None)]),
)


def larger_conditions(children: st.SearchStrategy[Expected]) -> st.SearchStrategy[Expected]:
    """Conditions made of conditions."""
    return st.one_of(
        st.builds(lambda *two: call("({} AND {})", every, *two), children, children),
        st.builds(lambda *two: call("({} OR {})", some, *two), children, children),
        children.map(lambda child: call("NOT ({})", negation, child)),
        children.map(lambda child: call("(({}) IS TRUE)", lambda value: value is True, child)),
        children.map(lambda child: call("(({}) IS NOT FALSE)", lambda value: value is not False, child)),
    )


conditions = st.recursive(condition_leaves, larger_conditions, max_leaves=6)
