"""What rows are wanted, column by column: to leave out files and row groups, and then to choose rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

Value = int | str | datetime
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Between(NamedTuple):
    """`low ≤ value ≤ high`; None: no bound on that side."""

    low: Value | None
    high: Value | None

    def overlaps(self, least: Any, most: Any) -> bool:
        """Whether a column whose values are from `least` to `most` may have such a value; None where
        that isn't known."""
        too_low = most is not None and self.low is not None and most < self.low
        too_high = least is not None and self.high is not None and least > self.high
        return not too_low and not too_high

    def mask(self, column: pa.Array) -> pa.Array:
        """Which of the column's values are such."""
        if self.low is not None and self.low == self.high:
            return _equal(column, self.low)
        conditions = [
            *([pc.greater_equal(column, self.low)] if self.low is not None else []),
            *([pc.less_equal(column, self.high)] if self.high is not None else []),
        ]
        return conditions[0] if len(conditions) == 1 else pc.and_(*conditions)


class OneOf(NamedTuple):
    """One of some whole numbers, ascending; not none."""

    values: Sequence[int]

    @property
    def low(self) -> int:
        """The least of them."""
        return self.values[0]

    @property
    def high(self) -> int:
        """The greatest of them."""
        return self.values[-1]

    def overlaps(self, least: Any, most: Any) -> bool:
        """As `Between.overlaps`."""
        if least is None or most is None:
            return True
        at = bisect_left(self.values, least)
        return at < len(self.values) and self.values[at] <= most

    def mask(self, column: pa.Array) -> pa.Array:
        """Which of the column's values are such."""
        return pc.is_in(column, value_set=pa.array(self.values, pa.int64()))


Bounds = Mapping[str, Between | OneOf]
"""By column; a row must be within all."""


def equal(value: Value) -> Between:
    """Just that value."""
    return Between(value, value)


def time_of(time_ms: int) -> datetime:
    """A time in ms since 1970 as a column of times has it. What no calendar has is the last time
    that it has."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def choose(batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
    """The rows of the batch that are within the bounds."""
    mask: Any = None
    for name, bound in bounds.items():
        met = bound.mask(batch.column(name))
        mask = met if mask is None else pc.and_(mask, met)
    if mask is None or mask.true_count == batch.num_rows:
        return batch
    return batch.filter(mask)


def _equal(column: pa.Array, value: Value) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return pc.equal(column, value)
    # By the dictionary's numbers: it has a few values, and the column a million.
    return pc.equal(column.indices, pc.index(column.dictionary, value))
