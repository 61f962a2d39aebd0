"""Hiding from consumers what a log holds, but isn't known to be confirmed."""

from __future__ import annotations

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.frame import KIND_HOLE, FrameError, decode_meta
from lakemq.storage.state.topics import Queue


def hide_from(log: CommitLog, reader: Reader, position: int) -> None:
    """Consumers see nothing of what stands at `position` or after it, until all that the log holds now is confirmed."""
    if position >= log.next_position:
        return
    gaps = _gaps_from(log, reader, position)
    hidden = [
        (queue, queue.end_offset - _shown_end(reader, queue, position, gaps)) for queue in log.topics.all_queues()
    ]
    log.confirmed.hide(log.next_position, [(queue, count) for queue, count in hidden if count > 0])


def _shown_end(reader: Reader, queue: Queue, position: int, gaps: list[tuple[int, int]]) -> int:
    """Where the queue stood at that position: before the gaps that follow it."""
    end = reader.offset_at_position(queue, position)
    for first, after in gaps:
        if reader.offset_at_position(queue, after) != end:
            break  # a message stands between
        end -= after - first
    return max(end, 0)


def _gaps_from(log: CommitLog, reader: Reader, position: int) -> list[tuple[int, int]]:
    """The positions, from `position` on, by which all queues were moved as an epoch began: ascending. Raises
    `OSError`."""
    gaps: list[tuple[int, int]] = []
    for _, first in log.identity.epochs:
        if not position <= first < log.next_position:
            continue
        segment = log.segments[reader.segment_of_position(first)]
        index = reader.index(segment)
        number = index.frame_at(first)
        after = index.positions[number + 1] if number + 1 < len(index.positions) else index.end_position
        try:
            meta = decode_meta(segment.read(index.offsets[number], index.frame_bytes(number)))
        except FrameError:
            moves = after - first > 1  # it is damaged: what is hidden for nothing is shown soon
        else:
            moves = meta.kind == KIND_HOLE and not meta.runs
        if moves:
            gaps.append((first, after))
    return gaps
