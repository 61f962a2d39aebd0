"""Reading single messages by position, many at once: what copies and look-ups are made of."""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import NamedTuple

from lakemq.model.errors import LogDamaged, PositionGone
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.look_up import RowsPlan
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.cache import FrameCache, FrameKey
from lakemq.storage.segment.frame import KIND_MESSAGES
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.segment import Frame, Segment, read_bytes

RECENT_BYTES_MAX = 32 * 1024 * 1024


class RowsRead(NamedTuple):
    """What became of positions that were to be read: rows; `lost` to damage that was repaired;
    `damaged`, unreadable now; `left`, not read as there was no room for more."""

    parts: list[FrameRows]
    lost: list[int]
    damaged: list[int]
    left: list[int]

    def take_gone(self, min_position: int) -> list[int]:
        """Take what the log that begins there has no longer out of what is `damaged`, which ascends: retention was
        faster than the read, and the lake has it."""
        gone = self.damaged[: bisect_left(self.damaged, min_position)]
        del self.damaged[: len(gone)]
        return gone


class RowReader(Reader):
    """A `Reader` that also reads rows by their positions. It keeps the frames that it read last: what
    is due next is mostly in the same ones."""

    def __init__(self, log: CommitLog) -> None:
        super().__init__(log)
        self._recent = FrameCache(RECENT_BYTES_MAX)
        self._recent_lock = Lock()

    def memory_bytes(self) -> dict[str, int]:
        """What it keeps of memory, by what that is."""
        return {"sealed_indexes": self._indexes.memory_bytes, "recent_frames": self._recent.memory_bytes}

    def forget_unused(self) -> None:
        """Let go of indexes that nobody has asked for in a while; to be called again and again."""
        self._indexes.forget_unused()

    def forget(self, segment: Segment) -> None:
        super().forget(segment)
        with self._recent_lock:
            self._recent.drop(segment.identity)

    def cached_rows(self, plans: list[RowsPlan]) -> bool:
        """Whether carrying out the plans touches no file."""
        return all(self._frame_in_memory(plan) is not None for plan in plans)

    def read_rows(self, plans: list[RowsPlan], bytes_max: int) -> RowsRead:
        """The rows of the plans, in frames of about `bytes_max` bytes of memory, at least one. Raises `Busy`
        when the disk can't be read now."""
        found = RowsRead([], [], [], [])
        size = 0
        for plan in plans:
            if size > bytes_max:
                found.left.extend(plan.positions)
                continue
            try:
                frame = self._frame_in_memory(plan) or self._read_frame(plan)
            except (LogDamaged, PositionGone) as why:
                size += self._add_from_fallback(plan, why, found)
                continue
            size += frame.content.memory_bytes
            if frame.meta.kind == KIND_MESSAGES:
                first = frame.meta.first_position
                found.parts.append(FrameRows(frame, [position - first for position in plan.positions]))
            else:
                found.lost.extend(plan.positions)
        return found

    def _add_from_fallback(self, plan: RowsPlan, why: LogDamaged | PositionGone, found: RowsRead) -> int:
        """The rows of a plan whose frame is damaged, as far as they are elsewhere; how much memory they take."""
        if isinstance(why, PositionGone):
            if plan.segment not in self._log.segments:  # retention was faster
                found.damaged.extend(plan.positions)
                return 0
            why = plan.segment.damaged(plan.offset, "the file is missing")
        try:
            frames = self.read_fallback(plan.segment, plan.offset, why)
        except LogDamaged:
            frames = []
        left, size = set(plan.positions), 0
        for frame in frames:
            first = frame.meta.first_position
            here = [position for position in plan.positions if first <= position < first + frame.meta.count]
            if here:
                found.parts.append(FrameRows(frame, [position - first for position in here]))
                left.difference_update(here)
                size += frame.content.memory_bytes
        # What the log had must not count as lost, for good, by what something else lacks.
        found.damaged.extend(sorted(left))
        return size

    def _frame_in_memory(self, plan: RowsPlan) -> Frame | None:
        return self._in_memory((plan.segment.identity, plan.offset))

    def _in_memory(self, key: FrameKey) -> Frame | None:
        frame = self._log.cache.get(key)
        if frame is None:
            with self._recent_lock:
                frame = self._recent.get(key)
        return frame

    def _read_frame(self, plan: RowsPlan) -> Frame:
        frame = plan.segment.parse(read_bytes(plan.segment, plan.offset, plan.size), plan.offset)
        self._keep((plan.segment.identity, plan.offset), frame)
        return frame

    def _keep(self, key: FrameKey, frame: Frame) -> None:
        with self._recent_lock:
            self._recent.put(key, frame)
