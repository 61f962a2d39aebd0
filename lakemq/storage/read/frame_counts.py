"""How many rows the frames of a segment hold, as its index says."""

from __future__ import annotations

from bisect import bisect_left

from lakemq.storage.segment.segment_index import QueueRuns, SegmentIndex


def rows_between(index: SegmentIndex, queues: list[QueueRuns], first: int, last: int) -> int:
    """How many rows of the queues the frames `first ≤ number < last` hold."""
    return sum(_offset_at(index, runs, last) - _offset_at(index, runs, first) for runs in queues)


def _offset_at(index: SegmentIndex, runs: QueueRuns, number: int) -> int:
    """The queue's next offset before frame `number`."""
    if number >= len(index.offsets):
        return runs.next_offset
    run = bisect_left(runs.frame_offsets, index.offsets[number])
    return runs.first_offsets[run] if run < len(runs.first_offsets) else runs.next_offset


def frames_that_fit(index: SegmentIndex, queues: list[QueueRuns], first: int, rows_max: int) -> int:
    """The largest `last` with at most `rows_max` rows of the queues in frames `first … last`."""
    low, high = first, len(index.positions)
    while low < high:
        middle = (low + high + 1) // 2
        if rows_between(index, queues, first, middle) <= rows_max:
            low = middle
        else:
            high = middle - 1
    return low


def has_runs(index: SegmentIndex, number: int) -> bool:
    """Whether there is something to be found in frame `number`: it is no hole."""
    offset = index.offsets[number]
    for runs in index.queues.values():
        at = bisect_left(runs.frame_offsets, offset)
        if at < len(runs.frame_offsets) and runs.frame_offsets[at] == offset:
            return True
    return False
