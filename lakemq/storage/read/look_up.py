"""Where the log's messages are, by its segments' indexes. Whoever looks says how an index is got: from memory alone, or
from files too, for which there are threads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakemq.storage.read.frame_counts import has_runs
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import QueueRuns, SegmentIndex
from lakemq.storage.state.topics import Queue

FRAMES_MAX = 16_384
IndexOf = Callable[[Segment], SegmentIndex]
Segments = Sequence[Segment]
"""Of a log, ascending: the last one is written, and may be while somebody looks."""


class Extent(NamedTuple):
    """Frames `number … ` of a segment that a plan wants, as `(offset, bytes)`."""

    segment: Segment
    frames: list[tuple[int, int]]


class QueuePlan(NamedTuple):
    """A read of one queue: its frames, and the offsets `begin ≤ o < end` wanted of them."""

    extents: list[Extent]
    topic: str
    queue_id: int
    begin: int
    end: int


class RowsPlan(NamedTuple):
    """Rows of one frame, the one at byte `offset` of the segment: those of `positions`, ascending."""

    segment: Segment
    offset: int
    size: int
    positions: list[int]


class Sought(NamedTuple):
    """What `plan_queue` plans: up to `messages_max` messages of `queue` from `offset` on, which must be readable, in
    frames of about `bytes_max` bytes together, at least one."""

    queue: Queue
    offset: int
    messages_max: int
    bytes_max: int


def plan_queue(segments: Segments, index_of: IndexOf, sought: Sought) -> QueuePlan:
    """What to read for that."""
    queue, offset, messages_max, bytes_max = sought
    end = queue.after_gap(offset)
    if end > offset:
        return QueuePlan([], queue.topic, queue.queue_id, offset, end)
    extents: list[Extent] = []
    number = segment_of_offset(segments, index_of, queue, offset)
    size = 0
    while number < len(segments) and end < offset + messages_max and size < bytes_max:
        segment = segments[number]
        index = index_of(segment)
        runs = index.queues.get(queue.key)
        number += 1
        if runs is not None and runs.next_offset > end:
            extent, end, step = _plan_runs(segment, index, runs, end, offset + messages_max, bytes_max - size)
            extents.append(extent)
            size += step
            if end < runs.next_offset:
                break
        elif number < len(segments):
            # Many may have nothing of a queue that is seldom used, and each index is read from disk.
            number = max(number, segment_of_offset(segments, index_of, queue, end))
    if end == offset:
        # The rest of the queue was lost to damage: a plan always gets on.
        end = queue.next_offset
    return QueuePlan(extents, queue.topic, queue.queue_id, offset, min(end, offset + messages_max))


def segment_of_offset(segments: Segments, index_of: IndexOf, queue: Queue, offset: int) -> int:
    """The last segment in whose beginning the queue stood at or below `offset`."""
    low, high = 0, len(segments) - 1
    while low < high:
        middle = (low + high + 1) // 2
        runs = index_of(segments[middle]).queues.get(queue.key)
        if runs is None or runs.start_offset <= offset:
            low = middle
        else:
            high = middle - 1
    # Segments in which the queue was not made yet say nothing: go back to one that knows it.
    while low > 0:
        runs = index_of(segments[low]).queues.get(queue.key)
        if runs is not None and runs.start_offset <= offset:
            break
        low -= 1
    return low


def _plan_runs(
    segment: Segment, index: SegmentIndex, runs: QueueRuns, begin: int, end: int, bytes_max: int
) -> tuple[Extent, int, int]:
    """The frames of one segment with the queue's offsets `begin ≤ o < end`, in about `bytes_max`. For any thread, while
    frames are added after `end`."""
    frames: list[tuple[int, int]] = []
    size = 0
    number = runs.find(begin)
    while number < len(runs.first_offsets) and runs.first_offsets[number] < end:
        if frames and (size >= bytes_max or len(frames) >= FRAMES_MAX):
            break
        offset = runs.frame_offsets[number]
        frame_bytes = index.frame_bytes(index.frame_number(offset))
        frames.append((offset, frame_bytes))
        size += frame_bytes
        number += 1
    reached = runs.first_offsets[number] if number < len(runs.first_offsets) else runs.next_offset
    return Extent(segment, frames), reached, size


def segment_of_position(segments: Segments, position: int) -> int:
    """The number of the segment that holds, or held, the position."""
    return max(bisect_right([segment.base_position for segment in segments], position) - 1, 0)


def plan_rows(segments: Segments, index_of: IndexOf, positions: Sequence[int], end: int) -> list[RowsPlan]:
    """What to read for the messages at `positions`, ascending; those that are below the segments, or not below `end`,
    which the log had, are left out."""
    plans: list[RowsPlan] = []
    at, last = bisect_left(positions, segments[0].base_position), bisect_left(positions, end)
    while at < last:
        segment = segments[segment_of_position(segments, positions[at])]
        index = index_of(segment)
        number = index.frame_at(positions[at])
        following = index.positions[number + 1] if number + 1 < len(index.positions) else index.end_position
        after = bisect_left(positions, following, at, last)
        plans.append(RowsPlan(segment, index.offsets[number], index.frame_bytes(number), list(positions[at:after])))
        at = after
    return plans


def stored_ms(segments: Segments, index_of: IndexOf, position: int) -> int:
    """When the message at `position`, or else the first of the log, was stored."""
    index = index_of(segments[segment_of_position(segments, position)])
    return index.times[max(index.frame_at(position), 0)]


def position_at_time(segments: Segments, index_of: IndexOf, timestamp_ms: int) -> int:
    """The position of the first message stored at or after that time; the log's end if none."""
    times = [segment.last_store_time_ms for segment in segments[:-1]]
    return index_of(segments[bisect_left(times, timestamp_ms)]).position_at_time(timestamp_ms)


def offset_at_position(segments: Segments, index_of: IndexOf, queue: Queue, position: int) -> int:
    """The offset of the queue's first message at or after `position`; its end if none."""
    end = queue.next_offset
    for segment in segments[segment_of_position(segments, position) :]:
        index = index_of(segment)
        runs = index.queues.get(queue.key)
        if runs is None or not runs.first_offsets or position >= index.end_position:
            continue
        number = bisect_left(runs.frame_offsets, index.offsets[max(index.frame_at(position), 0)])
        if number < len(runs.first_offsets):
            return max(runs.first_offsets[number], queue.min_offset)
    return end


def offsets_at_time(segments: Segments, index_of: IndexOf, queues: Sequence[Queue], timestamp_ms: int) -> list[int]:
    """Where each of the queues stood before the first message, of whatever queue, that was stored at or after that
    time: one index says it of all of them. In one that was not made yet: its beginning."""
    times = [segment.last_store_time_ms for segment in segments[:-1]]
    index = index_of(segments[bisect_left(times, timestamp_ms)])
    offset = index.begin_of(bisect_left(index.times, timestamp_ms))
    return [max(_stood_at(index, queue, offset), queue.min_offset) for queue in queues]


def _stood_at(index: SegmentIndex, queue: Queue, frame_offset: int) -> int:
    """The next offset of the queue before the frame at that byte; 0 where the segment doesn't know the queue."""
    runs = index.queues.get(queue.key)
    if runs is None:
        return 0
    number = bisect_left(runs.frame_offsets, frame_offset)
    return runs.first_offsets[number] if number < len(runs.frame_offsets) else runs.next_offset


def limit_all(segments: Segments, index_of: IndexOf, begin: int, end: int, messages_max: int) -> int:
    """A position `e`, `begin < e ≤ end`, with at most `messages_max` messages in `begin ≤ p < e`: that many positions,
    and where that is in a large hole its end, as the hole that begins an epoch may be of 2^32 positions, which nobody
    is to walk in steps."""
    reached = begin + messages_max
    if reached >= end:
        return end
    index = index_of(segments[segment_of_position(segments, reached)])
    number = index.frame_at(reached)
    is_last = number + 1 >= len(index.positions)
    after = index.end_position if is_last else index.positions[number + 1]
    if number < 0 or after - index.positions[number] <= messages_max or has_runs(index, number):
        return reached
    return min(end, after)
