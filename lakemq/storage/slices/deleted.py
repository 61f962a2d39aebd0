"""What was deleted with its topic: a topic that is made again has the same queues, and begins at their floors."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakemq.storage.segment.slice import Slice


def without_deleted(slices: Iterable[Slice], floor: Callable[[str, int], int]) -> list[Slice]:
    """The messages that are left. `floor`: the first offset of a topic's queue that was not deleted."""
    left: list[Slice] = []
    for part in slices:
        below = max(floor(part.run.topic, part.run.queue_id) - part.first_queue_offset, 0)
        if below < part.count:
            left.append(part._replace(row=part.row + below, count=part.count - below) if below else part)
    return left
