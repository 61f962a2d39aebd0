"""About when messages were stored, told without a look at any file: from the indexes that are in memory, and else from
when a segment was full. It was then, or before."""

from __future__ import annotations

from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.topics import Queue


def stored_by_ms(reader: Reader, position: int) -> int:
    """The time by which the message at `position`, or else the first of the log, was stored."""
    segment = reader.segments()[reader.segment_of_position(position)]
    index = reader.known_index(segment)
    if index is None or not index.times:
        return segment.last_store_time_ms
    return index.times[max(index.frame_at(position), 0)]


def offset_stored_by_ms(reader: Reader, queue: Queue, offset: int) -> int:
    """The time by which the message at an offset of the queue, or else its first after that, was stored."""
    segments = reader.segments()
    for segment in reversed(segments):
        index = reader.known_index(segment)
        if index is None:
            return segment.last_store_time_ms
        runs = index.queues.get(queue.key)
        if runs is not None and runs.start_offset <= offset and runs.first_offsets:
            return index.times[index.frame_number(runs.frame_offsets[runs.find(offset)])]
    return _begin_ms(segments[0])


def _begin_ms(first: Segment) -> int:
    index = first.index
    return first.last_store_time_ms if index is None or not index.times else index.times[0]
