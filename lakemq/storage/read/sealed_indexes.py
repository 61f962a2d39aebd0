"""The indexes of sealed segments, read when they are first asked for; the last few stay in memory."""

from __future__ import annotations

from collections import OrderedDict

from lakemq.model.errors import Busy, PositionGone
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.recovery import sealed_index
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import SegmentIndex

INDEXES_MAX = 4
UNUSED_MAX = 6
"""One that nobody has asked for leaves memory, which may be much, at so many looks for such."""


class SealedIndexes:
    """Those of one log. Lives on its loop."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()
        self._unused: dict[int, int] = {}

    def known(self, segment: Segment) -> SegmentIndex | None:
        """The segment's index, if it is in memory. For any thread."""
        return segment.index or self._indexes.get(segment.identity)

    def forget(self, segment: Segment) -> None:
        """Another file took the segment's place."""
        self._indexes.pop(segment.identity, None)

    def forget_unused(self) -> None:
        """Let go of those that nobody has asked for at the last `UNUSED_MAX` calls."""
        self._unused = {identity: self._unused.get(identity, 0) + 1 for identity in self._indexes}
        for identity, looks in self._unused.items():
            if looks > UNUSED_MAX:
                del self._indexes[identity]

    @property
    def memory_bytes(self) -> int:
        """What they take of memory."""
        return sum(index.memory_bytes for index in self._indexes.values())

    def get(self, segment: Segment) -> SegmentIndex:
        """The segment's index; raises as `read`."""
        index = segment.index  # read once: the thread that seals a segment clears it
        if index is not None:
            return index
        index = self._indexes.pop(segment.identity, None)
        if index is None:
            index = self.read(segment)
        self.keep(segment, index)
        return index

    def keep(self, segment: Segment, index: SegmentIndex) -> None:
        """Have the index in memory as the one that was asked for last."""
        self._indexes[segment.identity] = index
        self._indexes.move_to_end(segment.identity)
        self._unused.pop(segment.identity, None)
        while len(self._indexes) > INDEXES_MAX:
            self._indexes.popitem(last=False)

    def read(self, segment: Segment) -> SegmentIndex:
        """The index from its file, or from the segment's. For any thread. Raises `PositionGone` when the segment has
        left the log, `LogDamaged`, and `Busy` when it can't be read now."""
        try:
            return sealed_index(self._log.files, segment)
        except FileNotFoundError:
            if segment not in self._log.segments:
                raise PositionGone(f"segment {segment.path.name} has left the log") from None
            raise segment.damaged(0, "its file is missing") from None
        except OSError as error:
            raise Busy(f"segment {segment.path.name} can't be read now: {error}") from None
