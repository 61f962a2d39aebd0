"""A filter's tree to nodes: a whitelist of what sqlglot knows; anything else is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lakemq.gateway.filter import operators, texts
from lakemq.gateway.filter.casts import coerce, whole_within
from lakemq.gateway.filter.grammar import parse, place_of, shorten
from lakemq.gateway.filter.values import (
    DAY,
    NOTHING,
    REAL,
    TEXT,
    TIME,
    TRUTH,
    WHOLE,
    Node,
    Resolve,
    Rows,
    columns_resolver,
    combine,
    constant,
    pc,
    refuse,
)
from lakemq.model.errors import InvalidFilter

if TYPE_CHECKING:
    from sqlglot import exp

NESTING_MAX = 64
_CAST_TYPES: dict[str, tuple[pa.DataType, int | None]] = {
    "TEXT": (TEXT, None),
    "BIGINT": (WHOLE, None),
    "INT": (WHOLE, 32),
    "SMALLINT": (WHOLE, 16),
    "TINYINT": (WHOLE, 8),
    "DOUBLE": (REAL, None),
    "BOOLEAN": (TRUTH, None),
    "TIMESTAMP": (TIME, None),
    "TIMESTAMPTZ": (TIME, None),
    "DATE": (DAY, None),
}
_COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_CALCULATIONS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_PREDICATES = frozenset(
    {*_COMPARISONS, "NullSafeEQ", "NullSafeNEQ", "Is", "In", "Between", "Like", "ILike", "RegexpLike", "Escape"}
    | {"Not", "And", "Or"}
)
_ADDITIONS = frozenset({"Add", "Sub", "DPipe"})


class Filter:
    """A predicate over rows. `columns`: those that a batch must have, and no others are looked at."""

    def __init__(self, text: str, node: Node, columns: frozenset[str]) -> None:
        self.text = text
        self.columns = columns
        self._node = node

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """True, false or null for each row of the batch. Raises `InvalidFilter` for what only
        values can tell: `concat` that makes too much."""
        if self._node.constant is not None:
            return pa.repeat(self._node.constant, batch.num_rows)
        try:
            return self._node.evaluate(Rows(batch))
        except pa.ArrowException as error:
            raise InvalidFilter(f"the filter can't be evaluated: {error}") from None

    def matches(self, batch: pa.RecordBatch) -> pa.Array:
        """Whether the predicate is true for each row."""
        return pc.fill_null(self.evaluate(batch), False)


def compile_filter(text: str, columns: Mapping[str, pa.DataType], resolve: Resolve | None = None) -> Filter:
    """The filter that `text` says, over these columns; `resolve`, when given, says what names mean
    instead. Raises `InvalidFilter`, which says what is wrong and at which character.

    The first call imports sqlglot, which takes half a second: not for the event loop.
    """
    used: set[str] = set()
    tree = parse(text)
    compiler = Compiler(resolve or columns_resolver(columns, used), sorted(columns))
    return compile_tree(text, tree, compiler, used)


def compile_tree(text: str, tree: exp.Expr, compiler: Compiler, used: Set[str]) -> Filter:
    """The filter that the tree of `text` says; `used`: the columns that the compiler has met then.
    Raises `InvalidFilter`."""
    try:
        node = compiler.compile(tree)
        if node.data_type not in (TRUTH, NOTHING):
            refuse("the filter must be a condition", node.at)
        return Filter(text, coerce(node, TRUTH), frozenset(used))
    except RecursionError:
        raise InvalidFilter("the filter is nested too deep") from None
    except (pa.ArrowException, UnicodeError) as error:
        raise InvalidFilter(f"the filter can't be evaluated: {error}") from None


Maker = Callable[[Any, Any], Node]


class Compiler:
    """Each method makes the node of one kind of tree; a dialect allows those in `makers`."""

    makers: ClassVar[Mapping[str, Maker]] = {}

    def __init__(self, resolve: Resolve, names: list[str]) -> None:
        self._resolve = resolve
        self._names = names
        self._depth = 0

    def compile(self, tree: Any) -> Node:
        """The node of a tree. Raises `InvalidFilter`."""
        kind = type(tree).__name__
        make = self.makers.get(kind)
        if make is None:
            name = tree.sql_name() if hasattr(tree, "sql_name") else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind)
            refuse(f"{name.lower()} is not allowed in a filter", place_of(tree))
        self._depth += 1
        if self._depth > NESTING_MAX:
            refuse("the filter is nested too deep", place_of(tree))
        node = make(self, tree)
        self._depth -= 1
        return node

    def _parts(self, tree: exp.Expr, *names: str) -> list[Any]:
        """The arguments of a tree by name; refuses any that isn't named."""
        for name, value in tree.args.items():
            if value and name not in names and name not in _HARMLESS:
                refuse(f"{name} is not allowed with {type(tree).__name__.lower()} in a filter", place_of(tree))
        return [tree.args.get(name) for name in names]

    def _value(self, tree: Any) -> Node:
        """An operand of an operator, where dialects differ on what a bare condition would mean."""
        if type(tree).__name__ in _PREDICATES:
            refuse("put this condition in parentheses", place_of(tree))
        return self.compile(tree)

    def _pair(self, tree: exp.Expr) -> tuple[Node, Node]:
        left, right = self._parts(tree, "this", "expression")
        return self._value(left), self._value(right)

    def _chain(self, tree: Any, kinds: frozenset[str]) -> list[Any]:
        """`a, b, c` of `a op b op c`, as trees from left to right; as long as they like."""
        reversed_parts: list[Any] = []
        while type(tree).__name__ in kinds:
            self._parts(tree, "this", "expression")
            reversed_parts.append(tree)
            tree = tree.this
        return [tree, *reversed(reversed_parts)]

    def number(self, text: str, at: int) -> pa.Scalar:
        """The value of a number's text."""
        return number_of(text, at)

    # Leaves ----------------------------------------------------------------------------------

    def literal(self, tree: exp.Literal) -> Node:
        at = place_of(tree)
        text = str(tree.this)
        if tree.is_string:
            return constant(pa.scalar(text, TEXT), at)
        return constant(self.number(text, at), at)

    def boolean(self, tree: exp.Boolean) -> Node:
        return constant(pa.scalar(bool(tree.this)), place_of(tree))

    def null(self, tree: exp.Null) -> Node:
        return constant(pa.scalar(None), place_of(tree))

    def column(self, tree: exp.Column) -> Node:
        identifier, table = self._parts(tree, "this", "table")
        at = place_of(tree)
        if type(identifier).__name__ != "Identifier":
            refuse("* is not allowed in a filter", at)
        name = str(identifier.this)
        if table is None:
            return self._named(name, at)
        place = place_of(table)
        key = constant(pa.scalar(name, TEXT), at)
        return texts.value_of(self._named(str(table.this), place), key)

    def _named(self, name: str, at: int) -> Node:
        node = self._resolve(name, at)
        if node is None:
            known = f"; there are {', '.join(self._names)}" if self._names else ""
            refuse(f"there is no column {shorten(name)!r}{known}", at)
        return node

    def paren(self, tree: exp.Paren) -> Node:
        (inner,) = self._parts(tree, "this")
        return self.compile(inner)

    # Conditions ------------------------------------------------------------------------------

    def conjunction(self, tree: exp.And) -> Node:
        first, *rest = self._chain(tree, frozenset({"And"}))
        return operators.every([self.compile(first), *[self.compile(part.expression) for part in rest]])

    def disjunction(self, tree: exp.Or) -> Node:
        first, *rest = self._chain(tree, frozenset({"Or"}))
        return operators.some([self.compile(first), *[self.compile(part.expression) for part in rest]])

    def negation(self, tree: exp.Not) -> Node:
        (inner,) = self._parts(tree, "this")
        return operators.negation(self.compile(inner))

    def comparison(self, tree: exp.Expr) -> Node:
        return operators.compare(_COMPARISONS[type(tree).__name__], *self._pair(tree))

    def same(self, tree: exp.NullSafeEQ) -> Node:
        return operators.same(*self._pair(tree))

    def different(self, tree: exp.NullSafeNEQ) -> Node:
        return operators.negation(operators.same(*self._pair(tree)))

    def identity(self, tree: exp.Is) -> Node:
        inner, what = self._parts(tree, "this", "expression")
        node = self._value(inner)
        kind = type(what).__name__
        if kind == "Null":
            return operators.is_null(node)
        if kind == "Boolean":
            return operators.is_truth(node, bool(what.this))
        return refuse("after IS there can be NULL, TRUE or FALSE", place_of(what))

    def between(self, tree: exp.Between) -> Node:
        inner, low, high = self._parts(tree, "this", "low", "high")
        return operators.between(self._value(inner), self._value(low), self._value(high))

    def among(self, tree: exp.In) -> Node:
        inner, choices = self._parts(tree, "this", "expressions")
        if not choices:
            refuse("IN needs a list of values", place_of(tree))
        return operators.is_among(self._value(inner), [self.compile(choice) for choice in choices])

    def like(self, tree: Any, escape: str = "\\") -> Node:
        inner, pattern, negate = self._parts(tree, "this", "expression", "negate")
        any_case = type(tree).__name__ == "ILike"
        node = texts.like(self._value(inner), self._value(pattern), escape, any_case)
        return operators.negation(node) if negate else node

    def escape(self, tree: exp.Escape) -> Node:
        inner, escape = self._parts(tree, "this", "expression")
        node = self.compile(escape)
        character = node.constant.as_py() if node.constant is not None else None
        if type(inner).__name__ not in ("Like", "ILike") or not isinstance(character, str) or len(character) != 1:
            refuse("ESCAPE takes one character, after a pattern of LIKE", place_of(tree))
        return self.like(inner, character)

    def rlike(self, tree: exp.RegexpLike) -> Node:
        return texts.rlike(*self._pair(tree))

    # Values ----------------------------------------------------------------------------------

    def calculation(self, tree: exp.Expr) -> Node:
        first, *rest = self._chain(tree, frozenset(_CALCULATIONS))
        node = self._operand(first)
        for part in rest:
            operator = _CALCULATIONS[type(part).__name__]
            node = operators.calculate(operator, node, self._operand(part.expression))
        return node

    def _operand(self, tree: Any) -> Node:
        if type(tree).__name__ in _ADDITIONS:
            refuse("put this in parentheses", place_of(tree))
        return self._value(tree)

    def negative(self, tree: exp.Neg) -> Node:
        (inner,) = self._parts(tree, "this")
        at = place_of(tree)
        if type(inner).__name__ == "Literal" and not inner.is_string:
            return constant(self.number("-" + str(inner.this), at), at)
        return operators.negative(self._value(inner), at)

    def cast(self, tree: exp.Cast) -> Node:
        inner, to = self._parts(tree, "this", "to")
        at = place_of(tree)
        name = to.this.name
        if name not in _CAST_TYPES or to.expressions:
            refuse(f"there is no cast to {name.lower()} in a filter", at)
        data_type, bits = _CAST_TYPES[name]
        node = coerce(self.compile(inner), data_type)
        if bits is None:
            return node
        return combine(WHOLE, at, lambda values: whole_within(values, bits), node)

    def entry(self, tree: exp.Bracket) -> Node:
        inner, keys = self._parts(tree, "this", "expressions")
        if len(keys) != 1:
            refuse("there must be one name in []", place_of(tree))
        return texts.value_of(self._value(inner), self.compile(keys[0]))

    def concat(self, tree: exp.Concat) -> Node:
        (parts,) = self._parts(tree, "expressions")
        return texts.concat([self.compile(part) for part in parts], place_of(tree))

    def pipes(self, tree: exp.DPipe) -> Node:
        first, *rest = self._chain(tree, frozenset({"DPipe"}))
        parts = [self._operand(first), *[self._operand(part.expression) for part in rest]]
        return texts.concat(parts, parts[0].at)

    def trim(self, tree: exp.Trim) -> Node:
        inner, position = self._parts(tree, "this", "position")
        return texts.trim(self.compile(inner), str(position or "both").lower())

    def substring(self, tree: exp.Substring) -> Node:
        inner, start, count = self._parts(tree, "this", "start", "length")
        if start is None:
            refuse("substring needs to know where to begin", place_of(tree))
        return texts.substring(self.compile(inner), self.compile(start), count and self.compile(count))

    def contains(self, tree: exp.ArrayContains) -> Node:
        return texts.contains(*self._pair(tree))

    def simple(self, tree: exp.Expr) -> Node:
        (inner,) = self._parts(tree, "this")
        return _SIMPLE[type(tree).__name__](self.compile(inner))

    def function(self, tree: exp.Anonymous) -> Node:
        name, arguments = self._parts(tree, "this", "expressions")
        if str(name).lower() != "cardinality":
            refuse(f"there is no function {shorten(str(name))!r} in a filter", place_of(tree))
        if len(arguments) != 1:
            refuse("cardinality takes one argument", place_of(tree))
        return texts.size(self.compile(arguments[0]))


def number_of(text: str, at: int) -> pa.Scalar:
    if text.lstrip("-").isdigit():
        if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
            refuse(f"the number {shorten(text)} has more than 64 bits", at)
        return pa.scalar(int(text), WHOLE)
    try:
        value = float(text)
    except ValueError:
        refuse(f"{shorten(text)!r} is no number", at)
    if abs(value) == float("inf"):
        refuse(f"the number {shorten(text)} is too large", at)
    return pa.scalar(value, REAL)


_HARMLESS = frozenset({"_type", "safe", "typed", "coalesce", "offset"})
"""What sqlglot notes for other dialects; nothing here depends on it."""

_SIMPLE: dict[str, Callable[[Node], Node]] = {
    "Lower": texts.lower,
    "Upper": texts.upper,
    "Length": texts.length,
    "ArraySize": texts.size,
}
Compiler.makers = {
    "Literal": Compiler.literal,
    "Boolean": Compiler.boolean,
    "Null": Compiler.null,
    "Column": Compiler.column,
    "Paren": Compiler.paren,
    "And": Compiler.conjunction,
    "Or": Compiler.disjunction,
    "Not": Compiler.negation,
    **dict.fromkeys(_COMPARISONS, Compiler.comparison),
    "NullSafeEQ": Compiler.same,
    "NullSafeNEQ": Compiler.different,
    "Is": Compiler.identity,
    "Between": Compiler.between,
    "In": Compiler.among,
    "Like": Compiler.like,
    "ILike": Compiler.like,
    "Escape": Compiler.escape,
    "RegexpLike": Compiler.rlike,
    **dict.fromkeys(_CALCULATIONS, Compiler.calculation),
    "Neg": Compiler.negative,
    "Cast": Compiler.cast,
    "TryCast": Compiler.cast,
    "Bracket": Compiler.entry,
    "Concat": Compiler.concat,
    "DPipe": Compiler.pipes,
    "Trim": Compiler.trim,
    "Substring": Compiler.substring,
    "ArrayContains": Compiler.contains,
    **dict.fromkeys(_SIMPLE, Compiler.simple),
    "Anonymous": Compiler.function,
}
