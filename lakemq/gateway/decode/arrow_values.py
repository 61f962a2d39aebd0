"""The rules of a message's fields, for whole columns: the same as those of `fields.py`.

Columns are those of `lakemq.model.columns.SINK`, in those types, and validated in full. Each
check raises with the column and the row, counted from 0 over the request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.decode import limits as bounds
from lakemq.gateway.decode.limits import Limits
from lakemq.model.errors import InvalidArrow, MessageTooLarge
from lakemq.model.ids import MESSAGE_ID_PATTERN
from lakemq.model.message_columns import GIVEN_TO_SINK, Column, Kind

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

FEW = 64
"""So many values are gone through faster than Arrow finds the function that does it."""
_MESSAGE_ID = rf"\A{MESSAGE_ID_PATTERN}\z"
_BAD_TAG = r"\|\||\A[ \t\r\n\v\f]|[ \t\r\n\v\f]\z|\A\*\z"


def check_values(batch: pa.RecordBatch, limits: Limits) -> None:
    """Check every value of a request's batch; raises `InvalidArrow` or `MessageTooLarge`."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "body":
            _check_body(column, limits.message_bytes_max)
        elif column.null_count < len(column):
            check, most = _CHECKS[name]
            check(name, most, column)


def _check_body(column: Any, bytes_max: int) -> None:
    if column.null_count:
        raise InvalidArrow(f"column 'body', row {_first(pc.is_null(column))}: null")
    # A body lies in the buffer, so it is no longer than that: most requests need no other look.
    data = column.buffers()[2]
    if data is None or data.size <= bytes_max:
        return
    lengths = pc.binary_length(column)
    if pc.max(lengths).as_py() > bytes_max:
        row = _first(pc.greater(lengths, bytes_max))
        size = lengths[row].as_py()
        raise MessageTooLarge(f"column 'body', row {row}: {size} bytes, more than the {bytes_max} of a message")


def _check_tag(name: str, most: int, column: Any) -> None:
    distinct = pc.unique(column)
    _check_text(name, distinct, most, lambda at: _row_of(column, distinct[at]))
    bad = pc.match_substring_regex(distinct, _BAD_TAG)
    if pc.any(bad).as_py():
        row = _row_of(column, distinct[_first(bad)])
        raise InvalidArrow(f"column {name!r}, row {row}: can't be '*', hold '||', or begin or end with white space")


def _check_plain(name: str, most: int, column: Any) -> None:
    _check_text(name, column, most, int)


def _check_origin(name: str, _: int, column: Any) -> None:
    bad = pc.invert(pc.fill_null(pc.match_substring_regex(column, _MESSAGE_ID), True))
    if pc.any(bad).as_py():
        raise InvalidArrow(f"column {name!r}, row {_first(bad)}: no message id")


def _check_keys(name: str, most: int, column: Any) -> None:
    _check_entries(name, column, bounds.KEYS_MAX)
    _check_items(name, column, most)


def _check_properties(_: str, __: int, column: Any) -> None:
    if _has_one_each(column):
        return
    # The names and the values of a map, each as the list that it holds for a row.
    names = pa.ListArray.from_arrays(column.offsets, column.keys)
    values = pa.ListArray.from_arrays(column.offsets, column.items)
    _check_entries("properties", names, bounds.PROPERTIES_MAX)
    _check_items("properties", names, bounds.PROPERTIES_BYTES_MAX)
    items = pc.list_flatten(values)
    if items.null_count:
        row = _parent(values, _first(pc.is_null(items)))
        raise InvalidArrow(f"column 'properties', row {row}: a value is null")
    _check_property_bytes(names, items)
    _check_distinct_names(names)


def _has_one_each(column: Any) -> bool:
    """Whether no row has more than one property, and each is fine, also those that no row shows: such a column needs no
    other look. Traces and the names that older clients give are so."""
    names, items = column.keys, column.items
    if names.null_count or items.null_count or not len(names):
        return False
    offsets = column.offsets
    if not offsets.equals(_steps(len(offsets))) and pc.max(pc.subtract(offsets[1:], offsets[:-1])).as_py() > 1:
        return False
    least, longest = _least_and_longest(names)
    if least == 0:
        return False
    room = bounds.PROPERTIES_BYTES_MAX - longest
    data = items.buffers()[2]
    return data is None or data.size <= room or pc.max(pc.binary_length(items)).as_py() <= room


def _least_and_longest(texts: Any) -> tuple[int, int]:
    """Of texts of which none is null, in bytes."""
    if len(texts) > FEW:
        least, longest = pc.min_max(pc.binary_length(texts)).values()
        return least.as_py(), longest.as_py()
    offsets = memoryview(texts.buffers()[1]).cast("i")
    ends = offsets[texts.offset : texts.offset + len(texts) + 1].tolist()
    lengths = [end - begin for begin, end in pairwise(ends)]
    return min(lengths), max(lengths)


def _steps(count: int) -> Any:
    """The numbers 0, 1, 2, …: where each row's entries begin if each has one."""
    return _all_steps((count - 1).bit_length())[:count]


@lru_cache(maxsize=32)
def _all_steps(bits: int) -> Any:
    return pc.cast(pa.arange(0, 1 << bits), pa.int32())


def _check_property_bytes(names: Any, items: Any) -> None:
    sizes = pc.add(pc.binary_length(pc.list_flatten(names)), pc.binary_length(items))
    # A row has no more than the largest pair as often as the row with most of them has any: mostly that says enough.
    count = pc.max(pc.list_value_length(names)).as_py() or 0
    if count * (pc.max(sizes).as_py() or 0) <= bounds.PROPERTIES_BYTES_MAX:
        return
    rows = pa.table({"row": pc.list_parent_indices(names), "bytes": sizes})
    by_row = rows.group_by("row").aggregate([("bytes", "sum")])
    large = pc.greater(by_row["bytes_sum"], bounds.PROPERTIES_BYTES_MAX)
    if pc.any(large).as_py():
        row = by_row["row"][_first(large)].as_py()
        raise InvalidArrow(f"column 'properties', row {row}: more than {bounds.PROPERTIES_BYTES_MAX} bytes")


def _check_distinct_names(names: Any) -> None:
    if (pc.max(pc.list_value_length(names)).as_py() or 0) < 2:
        return
    encoded = pc.dictionary_encode(pc.list_flatten(names))
    parents = pc.cast(pc.list_parent_indices(names), pa.int64())
    # One number for each pair of a row and a name: at most 2**20 rows of 2**31 names.
    pairs = pc.add(pc.multiply(parents, len(encoded.dictionary)), encoded.indices)
    if pc.count_distinct(pairs).as_py() == len(pairs):
        return
    counts = pc.value_counts(pairs)
    again = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
    row, name = divmod(again, len(encoded.dictionary))
    raise InvalidArrow(f"column 'properties', row {row}: {encoded.dictionary[name].as_py()[:100]!r} is there twice")


def _check_entries(name: str, column: Any, most: int) -> None:
    lengths = pc.list_value_length(column)
    if (pc.max(lengths).as_py() or 0) > most:
        row = _first(pc.greater(lengths, most))
        raise InvalidArrow(f"column {name!r}, row {row}: more than {most} entries")


def _check_items(name: str, column: Any, bytes_max: int) -> None:
    items = pc.list_flatten(column)
    if items.null_count:
        row = _parent(column, _first(pc.is_null(items)))
        raise InvalidArrow(f"column {name!r}, row {row}: an entry is null")
    _check_text(name, items, bytes_max, lambda at: _parent(column, at))


def _check_text(name: str, column: Any, bytes_max: int, row_of: Callable[[int], int]) -> None:
    """Each text that isn't null has 1 to `bytes_max` bytes."""
    lengths = pc.binary_length(column)
    least, most = pc.min_max(lengths).values()
    if least.as_py() == 0:
        raise InvalidArrow(f"column {name!r}, row {row_of(_first(pc.equal(lengths, 0)))}: empty")
    if (most.as_py() or 0) > bytes_max:
        row = row_of(_first(pc.greater(lengths, bytes_max)))
        raise InvalidArrow(f"column {name!r}, row {row}: longer than {bytes_max} bytes")


def _check_range(name: str, most: int, column: Any) -> None:
    allowed = _LEAST.get(name, 0)
    least, greatest = pc.min_max(column).values()
    if least.as_py() < allowed or greatest.as_py() > most:
        outside = pc.or_(pc.less(column, allowed), pc.greater(column, most))
        raise InvalidArrow(f"column {name!r}, row {_first(outside)}: must be from {allowed} to {most}")


_LEAST = {column.name: column.least for column in GIVEN_TO_SINK if column.least}


def _first(mask: Any) -> int:
    return pc.index(mask, True).as_py()


def _row_of(column: Any, value: Any) -> int:
    return pc.index(column, value).as_py()


def _parent(lists: Any, item: int) -> int:
    return pc.list_parent_indices(lists)[item].as_py()


_Check = Callable[[str, int, Any], None]

_SPECIAL: dict[str, _Check] = {"tag": _check_tag, "origin_message_id": _check_origin}
_BY_KIND: dict[Kind, _Check] = {
    Kind.TEXT: _check_plain,
    Kind.TEXTS: _check_keys,
    Kind.MAP: _check_properties,
    Kind.INT: _check_range,
    Kind.LONG: _check_range,
    Kind.TIME: _check_range,
}


def _check_of(column: Column) -> tuple[_Check, int]:
    return _SPECIAL.get(column.name) or _BY_KIND[column.kind], column.most


_CHECKS = {column.name: _check_of(column) for column in GIVEN_TO_SINK if column.name != "body"}
