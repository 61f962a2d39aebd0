"""What is due when, of all that waits: found by Arrow's kernels, a chunk at a time, in a thread. However much waits, it
is some thousand chunks, and no more memory than what is asked for."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)
from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from lakemq.storage.state.due_times import Chunk, DueTimes

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

LOOKED_MAX = 4_096
"""So many are looked at for a page, the soonest of all."""
CHUNKS_AT_ONCE = 64
_TYPES = {4: pa.uint32(), 8: pa.uint64()}


class Place(NamedTuple):
    """Of a scheduled message in the order that they are due in."""

    due_ms: int
    position: int


START = Place(-1, -1)


class Soonest(NamedTuple):
    """The next ones, ascending. `ends`: beyond the last of those that were looked at there is nothing; else the next
    look begins after `reached`."""

    places: list[Place]
    reached: Place
    ends: bool


class Times(NamedTuple):
    """How many are due in each bucket from `begin_ms` on, each `bucket_ms` wide; and before and after these."""

    begin_ms: int
    bucket_ms: int
    counts: list[int]
    before: int
    after: int


def soonest(times: DueTimes, waiting: BitMap64, after: Place) -> Soonest:
    """Those beyond `after` that wait, of the next `LOOKED_MAX`."""
    held: list[pa.Table] = []
    count, high_ms = 0, None
    for chunk in times.chunks():
        low_ms = max(after.due_ms, 0)
        if chunk.base_ms + chunk.span_ms < low_ms or (high_ms is not None and chunk.base_ms > high_ms):
            continue
        found = _within(chunk, low_ms, high_ms)
        if found is None:
            continue
        held.append(found)
        count += found.num_rows
        if count > 4 * LOOKED_MAX:
            held = [_first(held, after)]
            count = held[0].num_rows
            if count == LOOKED_MAX:
                high_ms = held[0].column("due")[count - 1].as_py()
    if not held:
        return Soonest([], after, ends=True)
    chosen = _first(held, after)
    places = list(map(Place, chosen.column("due").to_pylist(), chosen.column("position").to_pylist()))
    reached = places[-1] if places else after
    return Soonest([each for each in places if each.position in waiting], reached, len(places) < LOOKED_MAX)


def due_times(times: DueTimes, waiting: BitMap64, begin_ms: int, end_ms: int | None, buckets: int) -> Times:
    """How many of those that wait are due when; without an end up to the last."""
    if end_ms is None:
        end_ms = max((chunk.base_ms + chunk.span_ms for chunk in times.chunks()), default=begin_ms) + 1
    width_ms = max(-(-(end_ms - begin_ms) // buckets), 1)
    found: Counter[int] = Counter()
    chunks = times.chunks()
    while some := list(islice(chunks, CHUNKS_AT_ONCE)):
        dues = pa.chunked_array([_waiting_dues(chunk, waiting) for chunk in some], pa.int64())
        # Whatever is before is in one bucket, and whatever is after in another.
        numbers = pc.divide(pc.max_element_wise(pc.add(pc.subtract(dues, begin_ms), width_ms), 0), width_ms)
        for each in pc.value_counts(pc.min_element_wise(numbers, buckets + 1)).to_pylist():
            found[each["values"]] += each["counts"]
    return Times(begin_ms, width_ms, [found[at + 1] for at in range(buckets)], found[0], found[buckets + 1])


def _within(chunk: Chunk, low_ms: int, high_ms: int | None) -> pa.Table | None:
    """Those due then; None: none are."""
    dues, kind = _as_they_are(chunk.dues), _TYPES[chunk.dues.itemsize]
    low = pa.scalar(max(low_ms - chunk.base_ms, 0), kind)
    chosen = pc.greater_equal(dues, low)
    if high_ms is not None and high_ms - chunk.base_ms < chunk.span_ms:
        chosen = pc.and_(chosen, pc.less_equal(dues, pa.scalar(high_ms - chunk.base_ms, kind)))
    at = pc.indices_nonzero(chosen)
    if not len(at):
        return None
    return pa.table(
        {
            "due": pc.add(pc.cast(dues.take(at), pa.int64()), chunk.base_ms),
            "position": pc.add(pc.cast(_as_they_are(chunk.positions).take(at), pa.int64()), chunk.first),
        }
    )


def _first(held: list[pa.Table], after: Place) -> pa.Table:
    """The first `LOOKED_MAX` beyond that place."""
    every = pa.concat_tables(held)
    due, position = every.column("due"), every.column("position")
    same = pc.and_(pc.equal(due, after.due_ms), pc.greater(position, after.position))
    every = every.filter(pc.or_(pc.greater(due, after.due_ms), same))
    order = pc.sort_indices(every, sort_keys=[("due", "ascending"), ("position", "ascending")])
    return every.take(order[:LOOKED_MAX])


def _waiting_dues(chunk: Chunk, waiting: BitMap64) -> Any:
    """Those of the chunk that wait."""
    dues = pc.add(pc.cast(_as_they_are(chunk.dues), pa.int64()), chunk.base_ms)
    left = BitMap64()
    left.add_range(chunk.first, chunk.last + 1)
    left &= waiting
    if len(left) == len(chunk.dues):  # all that waits is in a chunk
        return dues
    there = pc.subtract(pc.cast(_as_they_are(left.to_array()), pa.int64()), chunk.first)
    return dues.filter(pc.is_in(pc.cast(_as_they_are(chunk.positions), pa.int64()), there))


def _as_they_are(values: array[int]) -> pa.Array:
    """Nothing is copied."""
    return pa.Array.from_buffers(_TYPES[values.itemsize], len(values), [None, pa.py_buffer(values)])


def batches_of(places: list[Place], size: int) -> Iterator[list[Place]]:
    """In their order, so many at a time."""
    return (places[at : at + size] for at in range(0, len(places), size))
