"""Comparison, logic and arithmetic in SQL's three values: true, false and null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lakemq.gateway.filter.casts import coerce, only
from lakemq.gateway.filter.values import (
    BYTES,
    DAY,
    NAMES,
    NOTHING,
    REAL,
    TEXT,
    TIME,
    TRUTH,
    WHOLE,
    Node,
    Rows,
    combine,
    depth_over,
    pc,
    refuse,
)

COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WIDER = {frozenset({WHOLE, REAL}): REAL, frozenset({DAY, TIME}): TIME}
_COMPARABLE = (TEXT, WHOLE, REAL, TRUTH, TIME, DAY)


# Comparison ----------------------------------------------------------------------------------


def align(left: Node, right: Node) -> tuple[Node, Node]:
    """Both as the one type in which Spark compares them; raises `InvalidFilter` when there is none."""
    types = {TEXT if node.data_type == BYTES else node.data_type for node in (left, right)} - {NOTHING}
    if len(types) == 2 and TEXT in types:
        types.remove(TEXT)
    if len(types) == 2:
        types = {_WIDER.get(frozenset(types), NOTHING)}
    data_type = types.pop() if types else TEXT
    if data_type not in _COMPARABLE:
        refuse(f"{NAMES[left.data_type]} can't be compared with {NAMES[right.data_type]}", left.at)
    return coerce(left, data_type), coerce(right, data_type)


def compare(operator: str, left: Node, right: Node) -> Node:
    """`left operator right`, null where either is."""
    return combine(TRUTH, left.at, COMPARISONS[operator], *align(left, right))


def same(left: Node, right: Node) -> Node:
    """`left <=> right`: never null."""

    def evaluate(one: Any, other: Any) -> Any:
        both_null = pc.and_(pc.is_null(one), pc.is_null(other))
        return pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)

    return combine(TRUTH, left.at, evaluate, *align(left, right))


def is_null(node: Node) -> Node:
    """Whether the value is null: never null itself."""
    return combine(TRUTH, node.at, pc.is_null, node)


def is_truth(node: Node, wanted: bool) -> Node:
    """`node IS TRUE` or `IS FALSE`: never null."""
    return combine(TRUTH, node.at, lambda values: pc.fill_null(pc.equal(values, wanted), False), coerce(node, TRUTH))


def between(node: Node, low: Node, high: Node) -> Node:
    """`low <= node AND node <= high`."""
    return every([compare(">=", node, low), compare("<=", node, high)])


def is_among(node: Node, choices: Sequence[Node]) -> Node:
    """`node IN (choices)`: null when there's no match but a null."""
    pairs = [align(node, choice) for choice in choices]
    data_type = pairs[0][0].data_type
    if any(left.data_type != data_type or right.constant is None for left, right in pairs):
        return some([compare("=", node, choice) for choice in choices])
    constants = [right.constant for _, right in pairs if right.constant is not None]
    values = [value for value in constants if value.is_valid]
    with_null = len(values) < len(constants)
    wanted = pa.concat_arrays([pa.repeat(value, 1) for value in values]) if values else pa.array([], data_type)

    def evaluate(column: Any) -> Any:
        found = pc.is_in(column, value_set=wanted)
        if with_null:
            return only(found, pc.if_else(found, True, True))
        return only(pc.is_valid(column), found)

    return combine(TRUTH, node.at, evaluate, pairs[0][0])


# Logic ---------------------------------------------------------------------------------------


def every(operands: Sequence[Node]) -> Node:
    """AND of all: false when one is, else null when one is."""
    return _fold(pc.and_kleene, operands)


def some(operands: Sequence[Node]) -> Node:
    """OR of all: true when one is, else null when one is."""
    return _fold(pc.or_kleene, operands)


def negation(node: Node) -> Node:
    """NOT."""
    return combine(TRUTH, node.at, pc.invert, truth_of(node))


def truth_of(node: Node) -> Node:
    """The node as a condition: a boolean, or a string that says one."""
    if node.data_type not in (TRUTH, TEXT, BYTES, NOTHING):
        refuse(f"{NAMES[node.data_type]} is no condition", node.at)
    return coerce(node, TRUTH)


def _fold(function: Callable[[Any, Any], Any], operands: Sequence[Node]) -> Node:
    truths = [truth_of(operand) for operand in operands]
    at = truths[0].at

    def join(*values: Any) -> Any:
        joined = values[0]
        for value in values[1:]:
            joined = function(joined, value)
        return joined

    if all(truth.constant is not None for truth in truths):
        return combine(TRUTH, at, join, *truths)

    def evaluate(rows: Rows) -> Any:
        # One operand after the other: their values needn't be in memory together.
        joined = truths[0].evaluate(rows)
        for truth in truths[1:]:
            joined = function(joined, truth.evaluate(rows))
        return joined

    return Node(TRUTH, at, evaluate, depth=depth_over(truths, at))


# Arithmetic ----------------------------------------------------------------------------------

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_EXACT = pa.decimal256(19, 0)
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1


def calculate(operator: str, left: Node, right: Node) -> Node:
    """`left operator right`: whole numbers when both are, but for `/`; null past 64 bits."""
    types = {_number_type(left), _number_type(right)} - {NOTHING}
    both_text = TEXT in types and len(types) == 1
    data_type = REAL if operator == "/" or REAL in types or both_text else WHOLE
    numbers = coerce(left, data_type), coerce(right, data_type)
    function = _real(operator) if data_type == REAL else _whole(operator)
    return combine(data_type, left.at, function, *numbers)


def negative(node: Node, at: int) -> Node:
    """`- node`."""
    data_type = WHOLE if _number_type(node) in (WHOLE, NOTHING) else REAL
    zero = Node(WHOLE, at, lambda _: pa.scalar(0), pa.scalar(0))
    return calculate("-", coerce(zero, data_type), coerce(node, data_type))._replace(at=at)


def _number_type(node: Node) -> pa.DataType:
    data_type = TEXT if node.data_type == BYTES else node.data_type
    if data_type not in (WHOLE, REAL, TEXT, NOTHING):
        refuse(f"there is no arithmetic with {NAMES[node.data_type]}", node.at)
    return data_type


def _real(operator: str) -> Callable[[Any, Any], Any]:
    function = _PLAIN[operator]

    def calculate_real(left: Any, right: Any) -> Any:
        if operator == "/":
            right = only(pc.not_equal(right, 0.0), right)
        result = function(left, right)
        return only(pc.invert(pc.is_nan(result)), result)

    return calculate_real


def _whole(operator: str) -> Callable[[Any, Any], Any]:
    checked, plain = _CHECKED[operator], _PLAIN[operator]

    def calculate_whole(left: Any, right: Any) -> Any:
        try:
            return checked(left, right)
        except pa.ArrowInvalid:
            # Some row overflows: all again with enough digits, to tell which.
            exact = plain(left.cast(_EXACT), right.cast(_EXACT))
            fits = pc.and_(
                pc.greater_equal(exact, pa.scalar(_LEAST, exact.type)),
                pc.less_equal(exact, pa.scalar(_LARGEST, exact.type)),
            )
            return only(fits, exact).cast(WHOLE)

    return calculate_whole
