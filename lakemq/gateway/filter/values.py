"""What a filter is compiled to: nodes that make a column, or one constant, of a batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute

from lakemq.model.errors import InvalidFilter

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

TEXT = pa.string()
BYTES = pa.binary()
WHOLE = pa.int64()
REAL = pa.float64()
TRUTH = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
DAY = pa.date32()
NOTHING = pa.null()
TEXTS = pa.list_(pa.string())
TEXT_MAP = pa.map_(pa.string(), pa.string())

NAMES: dict[pa.DataType, str] = {
    TEXT: "a string",
    BYTES: "a binary",
    WHOLE: "a bigint",
    REAL: "a double",
    TRUTH: "a boolean",
    TIME: "a timestamp",
    DAY: "a date",
    NOTHING: "NULL",
    TEXTS: "an array of strings",
    TEXT_MAP: "a map of strings",
}
"""The types there are in a filter, and what a user calls them."""

DEPTH_MAX = 100

# Valid UTF-8, byte by byte: Arrow matches binary columns as bytes, in linear time.
_UTF8 = (
    r"\A(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}"
    r"|\xED[\x80-\x9F][\x80-\xBF]|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}"
    r"|\xF4[\x80-\x8F][\x80-\xBF]{2})*\z"
)


class Rows:
    """A batch that is being filtered, and what was made of its columns on the way."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._texts: dict[str, pa.Array] = {}

    def column(self, name: str, data_type: pa.DataType) -> pa.Array:
        """A column of the batch as `data_type`."""
        values = self.batch.column(name)
        return values if values.type == data_type else values.cast(data_type)

    def text(self, name: str) -> pa.Array:
        """The text of a binary column; null where it isn't UTF-8."""
        if name not in self._texts:
            self._texts[name] = _text_of(self.batch.column(name))
        return self._texts[name]


def _text_of(values: pa.Array) -> pa.Array:
    try:
        return values.cast(TEXT)
    except pa.ArrowInvalid:
        valid = pc.match_substring_regex(values, _UTF8)
        return pc.if_else(valid, values, pa.scalar(None, BYTES)).cast(TEXT)


class Node(NamedTuple):
    """A part of a filter. `evaluate` makes an array of `data_type` with a value a row, or, when
    the node is a constant, its one value. `at`: where it begins in the text, a character from 1.
    `depth`: so many nodes are evaluated within one another."""

    data_type: pa.DataType
    at: int
    evaluate: Callable[[Rows], Any]
    constant: pa.Scalar | None = None
    depth: int = 1


Resolve = Callable[[str, int], Node | None]
"""The node of a name at a place in the text, or None when nothing has that name."""


def refuse(what: str, at: int) -> NoReturn:
    """Raise `InvalidFilter` for what stands at that character."""
    raise InvalidFilter(f"{what}, at character {at}")


def constant(value: pa.Scalar, at: int) -> Node:
    """A node with one value for all rows."""
    return Node(value.type, at, lambda _: value, value)


def column(name: str, data_type: pa.DataType, at: int) -> Node:
    """A node that is a column of the batch, of one of the types in `NAMES`."""
    return Node(data_type, at, lambda rows: rows.column(name, data_type))


def binary_column(name: str, at: int) -> Node:
    """A node that is a binary column, whose text `text_of` can take."""
    return Node(BYTES, at, _BinaryColumn(name))


class _BinaryColumn:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, rows: Rows) -> pa.Array:
        return rows.batch.column(self.name)


def text_of(node: Node) -> Node:
    """The text of a binary column."""
    assert isinstance(node.evaluate, _BinaryColumn)
    name = node.evaluate.name
    return Node(TEXT, node.at, lambda rows: rows.text(name))


def combine(data_type: pa.DataType, at: int, function: Callable[..., Any], *operands: Node) -> Node:
    """The node that applies `function` to the operands' values; a constant when they all are."""
    depth = depth_over(operands, at)
    if all(operand.constant is not None for operand in operands):
        values = function(*[pa.repeat(operand.constant, 1) for operand in operands])
        return constant(values[0], at)

    def evaluate(rows: Rows) -> Any:
        return function(*[operand.evaluate(rows) for operand in operands])

    return Node(data_type, at, evaluate, depth=depth)


def depth_over(operands: Iterable[Node], at: int) -> int:
    """The depth of a node of these operands. Raises `InvalidFilter` when it is more than the
    evaluation can go."""
    depth = 1 + max([operand.depth for operand in operands], default=0)
    if depth > DEPTH_MAX:
        refuse(f"more than {DEPTH_MAX} operations within one another", at)
    return depth


def columns_resolver(types: Mapping[str, pa.DataType], used: set[str]) -> Resolve:
    """Names are the columns in `types`, in any case, as in Spark; those met are added to `used`."""
    known = {name.lower(): name for name in types}

    def resolve(name: str, at: int) -> Node | None:
        exact = known.get(name.lower())
        if exact is None:
            return None
        used.add(exact)
        data_type = _general(types[exact])
        return binary_column(exact, at) if data_type == BYTES else column(exact, data_type, at)

    return resolve


def _general(data_type: pa.DataType) -> pa.DataType:
    """The type in `NAMES` that has all values of a column's type."""
    if pa.types.is_integer(data_type):
        return WHOLE
    if pa.types.is_floating(data_type):
        return REAL
    if pa.types.is_timestamp(data_type):
        return TIME
    assert data_type in NAMES, data_type
    return data_type
