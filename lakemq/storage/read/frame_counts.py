"""How many rows the frames of a segment hold, as its index says, and which are some topics'."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Set as AbstractSet

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


def fit_in(index: SegmentIndex, topics: AbstractSet[str], begin: int, rows_max: int) -> tuple[int, int]:
    """The largest number of a frame up to which, from position `begin` on, the frames have at most so many rows of the
    topics, and how many they have. For any thread, while frames are added."""
    queues = [runs for (topic, _), runs in list(index.queues.items()) if topic in topics and runs.first_offsets]
    first = max(index.frame_at(begin), 0)
    fitting = frames_that_fit(index, queues, first, rows_max)
    return fitting, rows_between(index, queues, first, fitting)


def has_runs(index: SegmentIndex, number: int) -> bool:
    """Whether there is something to be found in frame `number`: it is no hole."""
    offset = index.offsets[number]
    for runs in index.queues.values():
        at = bisect_left(runs.frame_offsets, offset)
        if at < len(runs.frame_offsets) and runs.frame_offsets[at] == offset:
            return True
    return False


def frames_of(
    index: SegmentIndex, topics: AbstractSet[str], begin: int, end: int, runs_max: int
) -> tuple[list[int], int]:
    """The frames with positions `begin ≤ p < end` that hold messages of the topics, and how far they were looked for:
    no further than they have so many runs of these, and at least one frame far. For any thread, while frames are
    added."""
    first, last = max(index.frame_at(begin), 0), index.frame_at(end - 1) + 1
    at = index.offsets[first]
    runs = [runs.frame_offsets for (topic, _), runs in list(index.queues.items()) if topic in topics]
    begun = [(offsets, low) for offsets in runs if (low := bisect_left(offsets, at)) < len(offsets)]
    fitting = _frames_with(index, begun, first, last, runs_max)
    limit = index.begin_of(fitting)
    found: set[int] = set()
    for offsets, low in begun:
        found.update(offsets[low : bisect_left(offsets, limit, low)])
    reached = index.positions[fitting] if fitting < last else end
    return [index.frame_number(offset) for offset in sorted(found)], reached


def _frames_with(index: SegmentIndex, begun: list[tuple[array[int], int]], first: int, last: int, runs_max: int) -> int:
    """An `e`, `first < e ≤ last`, with at most so many of the runs in frames `first … e`, or one frame further: found
    in a few looks at each queue, however many frames there are, hence not always the largest."""

    def fit(count: int) -> bool:
        limit = index.begin_of(first + count)
        return sum([bisect_left(offsets, limit, low) - low for offsets, low in begun]) <= runs_max

    count_max = last - first
    if fit(count_max):
        return last
    count = min(runs_max, count_max)
    while count > 1 and not fit(count):
        count //= 2
    while 2 * count < count_max and fit(2 * count):
        count *= 2
    return first + count
