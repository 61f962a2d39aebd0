"""RocketMQ's SQL92: conditions over a message's properties, evaluated column by column.

There are `= <> < <= > >=`, BETWEEN, IN, LIKE … ESCAPE, IS NULL, AND, OR and NOT; numbers, 'strings',
TRUE and FALSE. A name is a property's, in "double quotes" if it has odd characters; `TAGS` and `KEYS` are
the tag and the keys, with blanks between. A property that a message lacks is null, and so is one that is
compared with a number, or with TRUE, and is none; the logic is SQL's, of three values.

What is a number, by a literal beside it, is compared as a number, anything else as a string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakemq.gateway.filter import operators
from lakemq.gateway.filter.compiler import Compiler, compile_tree, number_of
from lakemq.gateway.filter.grammar import parse, place_of
from lakemq.gateway.filter.values import NOTHING, REAL, TEXT, Node, column, pc, refuse

if TYPE_CHECKING:
    from sqlglot import exp

TAGS, KEYS = "TAGS", "KEYS"
EXACT_MAX = 1 << 53
"""Below it a double holds each whole number."""


class PropertyFilter:
    """A condition over messages' properties."""

    def __init__(self, text: str) -> None:
        """Raises `InvalidFilter`, which says what is wrong and at which character. The first one
        imports sqlglot, which takes half a second: not for the event loop."""
        used: set[str] = set()
        self.text = text
        self._filter = compile_tree(text, parse(text, None), _Compiler(used), used)
        self._names = sorted(used)

    def matches(self, batch: pa.RecordBatch) -> pa.Array:
        """Whether the condition is true for each row of a batch of stored columns."""
        columns = [_column(batch, name) for name in self._names]
        # One column more, so that there are rows if no property is asked for.
        made = pa.RecordBatch.from_arrays([*columns, pa.nulls(batch.num_rows)], names=[*self._names, ""])
        return self._filter.matches(made)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    names = batch.schema.names
    if name == TAGS and "tag" in names:
        return batch.column("tag")
    if name == KEYS and "keys" in names:
        return pc.binary_join(batch.column("keys"), " ")
    if name in (TAGS, KEYS) or "properties" not in names:
        return pa.nulls(batch.num_rows, TEXT)
    return pc.map_lookup(batch.column("properties"), query_key=pa.scalar(name), occurrence="last")


class _Compiler(Compiler):
    """Names are properties, all of them strings."""

    def __init__(self, used: set[str]) -> None:
        def resolve(name: str, at: int) -> Node:
            used.add(name)
            return column(name, TEXT, at)

        super().__init__(resolve, [])

    def compile(self, tree: Any) -> Node:
        """The node of a tree; a property that is a condition by itself is TRUE or not. Raises
        `InvalidFilter`."""
        node = super().compile(tree)
        return operators.truth_of(node) if self._depth == 0 and node.data_type in (TEXT, NOTHING) else node

    def number(self, text: str, at: int) -> pa.Scalar:
        """A double, so that it is compared with 1.5 as well; only what a double can't hold is whole."""
        value = number_of(text, at)
        return value.cast(REAL) if abs(value.as_py()) < EXACT_MAX else value

    def column(self, tree: exp.Column) -> Node:
        """A property; a point in its name needs no quotes."""
        parts = self._parts(tree, "this", "table")
        if type(parts[0]).__name__ != "Identifier":
            refuse("* is not allowed in a filter", place_of(tree))
        name = ".".join(str(part.this) for part in reversed(parts) if part is not None)
        return self._named(name, place_of(parts[1] or tree))

    def like(self, tree: Any, escape: str = "") -> Node:
        """LIKE, where nothing escapes unless it is said."""
        return super().like(tree, escape)


_ALLOWED = (
    *("Literal", "Boolean", "Null", "Column", "Paren", "Neg", "And", "Or", "Not", "Is", "In", "Between"),
    *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "Like", "Escape"),
)
_Compiler.makers = {
    **{name: Compiler.makers[name] for name in _ALLOWED},
    "Column": _Compiler.column,
    "Like": _Compiler.like,
}
