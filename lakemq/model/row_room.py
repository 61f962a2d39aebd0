"""How many values a body becomes as columns: more than it has bytes, where elements of arrays lack most fields.

A column of a STRUCT's field has a value for each element, null or not: `[{},{}]` are three bytes an element, and with a
thousand fields a thousand values. Without a bound one message would take all memory of whoever decodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from lakemq.model.column_type import ColumnType

VALUES_MAX = 2_000_000
"""A body becomes so many values, or as many as it has bytes where those are more; else it doesn't fit."""
VALUE_BYTES = 40
"""What a value takes in memory, about, as an object of Python and in Arrow."""


Count = Callable[[Any], int]


class RowRoom(NamedTuple):
    """Of a row's columns. `counted`: how many values a row becomes. `width`: those outside arrays and maps. `repeated`:
    the most values that one element of an array or a map has; 0: there is neither."""

    counted: Count
    width: int
    repeated: int

    def is_over(self, value: Any, size: int, elements: int) -> bool:
        """Whether a body of `size` bytes becomes too many values. `elements`: of arrays and maps, at most."""
        most = max(VALUES_MAX, size)
        return self.width + elements * self.repeated > most and self.counted(value) > most

    def bytes_at_most(self, body: bytes) -> int:
        """What a body that fits takes in memory, about, whatever is in it. An element takes a byte at least."""
        values = min(self.width + len(body) * self.repeated, max(VALUES_MAX, len(body)))
        return len(body) + VALUE_BYTES * values


def room_of(columns: ColumnType) -> RowRoom:
    """Of rows with these columns, which are a STRUCT."""
    return RowRoom(_counting(columns), _width(columns), _repeated(columns))


def _width(type: ColumnType) -> int:
    return 1 + sum(_width(each.type) for each in type.fields)


def _repeated(type: ColumnType) -> int:
    inner = [_repeated(each.type) for each in type.fields]
    if type.of is not None:
        inner += [_width(type.of), _repeated(type.of)]
    return max(inner, default=0)


def _counting(type: ColumnType) -> Count:
    """What counts the values that one of the type becomes. Where it isn't of its type, it counts as one, or as null."""
    width = _width(type)
    if type.of is not None:
        of, fixed = _counting(type.of), 0 if _repeated(type.of) else _width(type.of)

        def count_elements(value: Any) -> int:
            if not isinstance(value, dict | list):
                return 1
            elements = cast(
                "list[Any]", list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else value
            )
            return 1 + (len(elements) * fixed if fixed else sum(map(of, elements)))

        return count_elements
    deep = [(each.name, _counting(each.type), _width(each.type)) for each in type.fields if _repeated(each.type)]

    def count(value: Any) -> int:
        if not isinstance(value, dict):
            return width
        values = cast("dict[str, Any]", value)
        return width + sum(of_field(values.get(name)) - least for name, of_field, least in deep)

    return count
