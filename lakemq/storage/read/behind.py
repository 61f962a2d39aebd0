"""How many bytes of the log come after a frame: without a look at what is between them."""

from __future__ import annotations

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.segment.segment import Segment


class Behind:
    """That of one log. Lives on its loop. Segments are counted when the log begins another one, and then not again."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._active: Segment | None = None
        self._after: dict[int, int] = {}
        """By a segment's first position, the bytes from its beginning to that of the one that is written."""
        self._all = 0

    def bytes_from(self, segment: Segment, offset: int) -> int:
        """From that byte of the segment's file to the end of the log. Of a segment that has left the log meanwhile it
        is as much as the log has."""
        active = self._log.active
        if active is not self._active:
            self._count(active)
        after = self._after.get(segment.base_position)
        return active.size + (self._all if after is None else after - offset)

    def _count(self, active: Segment) -> None:
        self._active, self._after, self._all = active, {active.base_position: 0}, 0
        for each in reversed(self._log.segments):
            if each is not active:
                self._all += each.size
                self._after[each.base_position] = self._all
