"""Where those are sent that read far behind the end of the log, and how they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from lakemq.contract.headers import READ_AT
from lakemq.model.far_behind import Readable, is_far, place_to_read
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.behind import Behind
from lakemq.storage.read.look_up import QueuePlan

_NAME = READ_AT.lower().encode()


class ReadAt:
    """Of one broker, by `replication.far_behind_bytes`. `followers`: a leader names one of them; a follower names
    itself, so that who reads here goes on until it isn't far behind any more."""

    def __init__(self, log: CommitLog, bound_bytes: int, followers: Callable[[], Sequence[Readable]]) -> None:
        self._behind = Behind(log)
        self._bound_bytes = bound_bytes
        self._followers = followers

    def header(self, plan: QueuePlan) -> tuple[bytes, bytes] | None:
        """What is said to who has read what was planned, and reads on after that; None: nothing."""
        if not plan.extents or not plan.extents[-1].frames:
            return None
        segment, frames = plan.extents[-1]
        offset, size = frames[-1]
        if not is_far(self._behind.bytes_from(segment, offset + size), self._bound_bytes):
            return None
        index = segment.index
        # A sealed segment's index may not be in memory: then a follower is to have all of the segment.
        last = segment.end_position - 1 if index is None else index.positions[index.frame_number(offset)]
        turn = crc32(plan.topic.encode()) + plan.queue_id
        address = place_to_read(self._followers(), segment.base_position, last, turn)
        return (_NAME, address.encode()) if address else None
