"""Hiding from consumers what a log holds, but isn't known to be confirmed."""

from __future__ import annotations

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader


def hide_from(log: CommitLog, reader: Reader, position: int) -> None:
    """Consumers see nothing of what stands at `position` or after it, until all that the log holds now is confirmed."""
    if position >= log.next_position:
        return
    hidden = [
        (queue, queue.end_offset - reader.offset_at_position(queue, position)) for queue in log.topics.all_queues()
    ]
    log.confirmed.hide(log.next_position, [(queue, count) for queue, count in hidden if count > 0])
