"""Since when, and until when, the log has messages of a queue: by its indexes, no message is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakemq.storage.read.look_up import IndexOf, Segments, segment_of_offset
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.state.topics import Queue


class Span(NamedTuple):
    """When a queue's oldest and its newest message were stored. None: there is none, or that one was lost."""

    oldest_ms: int | None = None
    newest_ms: int | None = None


def spans(segments: Segments, index_of: IndexOf, queues: Sequence[Queue]) -> list[Span]:
    """Those of the queues, in their order."""
    # Queues of a topic often begin and end in the same segments, so those of the one before are looked at first.
    first, last = 0, len(segments) - 1
    found: list[Span] = []
    for queue in queues:
        begin, newest = queue.after_gap(queue.min_offset), queue.before_gap(queue.end_offset - 1)
        if newest < begin:
            found.append(Span())
            continue
        first, oldest_ms = _stored_ms(segments, index_of, queue, begin, first)
        last, newest_ms = _stored_ms(segments, index_of, queue, newest, last)
        found.append(Span(oldest_ms, newest_ms))
    return found


def _stored_ms(segments: Segments, index_of: IndexOf, queue: Queue, offset: int, likely: int) -> tuple[int, int | None]:
    """The number of the segment that has the message at that offset, and when it was stored."""
    number = likely
    if not _holds(index_of(segments[likely]), queue, offset):
        number = segment_of_offset(segments, index_of, queue, offset)
    index = index_of(segments[number])
    if not _holds(index, queue, offset):
        return likely, None
    runs = index.queues[queue.key]
    return number, index.times[index.frame_number(runs.frame_offsets[runs.find(offset)])]


def _holds(index: SegmentIndex, queue: Queue, offset: int) -> bool:
    runs = index.queues.get(queue.key)
    return runs is not None and bool(runs.first_offsets) and runs.first_offsets[0] <= offset < runs.next_offset
