"""Which segments leave the log, and when.

What deletes goes by steady time (`model/steady_clock.py`), not by the wall's: a clock that was set wrong takes
nothing. And it goes by what the lake holds for certain (`lake/certain.py`), and has held for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from lakemq.model.grace import Grace
from lakemq.model.steady_clock import Jump, Reading, SteadyClock
from lakemq.model.written import size
from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.dropped import Dropped, Range
from lakemq.storage.log.segment_store import SegmentStore
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.routing_state import RoutingState

logger = logging.getLogger(__name__)

UNCONFIRMED = "CLOCK"
"""A file in the log's directory while the clock has jumped ahead and isn't believed: steady time then."""


class Retention:
    """Lets the oldest segments of a log go: what is past `retention_ms`, or on a crowded disk, and is in the
    lake since `compacted_grace_ms` at least; nothing in it may wait to be routed."""

    def __init__(self, settings: Storage, files: Files, directory: Path, store: SegmentStore, clock: Clock) -> None:
        self._settings, self._files, self._directory = settings, files, directory
        self._store, self._clock = store, clock
        self._grace = Grace(settings.compacted_grace_ms)
        self._certain_position = 0
        self.dropped = Dropped(files, directory)
        """What went before the lake was known to hold it."""
        self._noted = False
        self._steady: SteadyClock | None = None

    def open(self, last_ms: int | None) -> None:
        """Begin to count the time. `last_ms`: when the last message was stored, by the clock that then was."""
        self._steady = self._begin(last_ms)
        self.dropped.open(self._store.segments[0].base_position)

    def _begin(self, last_ms: int | None) -> SteadyClock:
        known_ms = self._read_unconfirmed()
        last_ms = last_ms if known_ms is None else min(known_ms, last_ms or known_ms)
        return SteadyClock(self._now(), self._settings.clock_confirm_ms, last_ms=last_ms)

    def steady_ms_after(self, last_ms: int) -> int:
        """Steady time now; before `open` as that will have it of a log whose last message was stored then."""
        return self._begin(last_ms or None).time_ms if self._steady is None else self.steady_ms

    # Time ------------------------------------------------------------------------------------

    def _now(self) -> Reading:
        return Reading(self._clock.now_ms(), self._clock.counted_ms())

    @property
    def steady_ms(self) -> int:
        """Steady time now, ms since 1970."""
        assert self._steady is not None
        before, time_ms = self._steady.jump, self._steady.observe(self._now())
        jump = self._steady.jump
        if jump is not None and before is None:
            logger.warning(
                (
                    "the clock is %d s ahead of the time that has passed: nothing is deleted by it "
                    "until it has stayed there for %d s (storage.clock_confirm_ms)"
                ), jump.ahead_ms // 1000, self._settings.clock_confirm_ms // 1000
            )  # fmt: skip
        elif jump is None and before is not None:
            logger.warning("the clock is trusted again")
        return time_ms

    @property
    def jump(self) -> Jump | None:
        """How far the clock is ahead of steady time, when that isn't believed."""
        assert self._steady is not None
        return self._steady.jump

    def _remember_jump(self) -> None:
        """While the clock isn't believed, what it stamped isn't either: a restart must know how late it was."""
        unconfirmed = self.jump is not None
        try:
            if unconfirmed and not self._noted:
                self._files.replace(self._directory / UNCONFIRMED, [b"%d" % self.steady_ms])
            elif not unconfirmed and self._noted:
                self._files.remove(self._directory / UNCONFIRMED)
            self._noted = unconfirmed
        except OSError as error:  # a full disk must not keep what may go: what goes now goes by steady time
            logger.warning("can't store whether the clock has jumped: %s", error)

    def _read_unconfirmed(self) -> int | None:
        file = self._directory / UNCONFIRMED
        self._noted = self._files.exists(file)
        try:
            return int(self._files.read_whole(file)) if self._noted else None
        except ValueError:
            return None

    # What the lake holds ---------------------------------------------------------------------

    @property
    def certain_position(self) -> int:
        """Below it the lake holds everything, by its own word, as it was last looked at."""
        return self._certain_position

    @certain_position.setter
    def certain_position(self, position: int) -> None:
        self._certain_position = position
        self._grace.say(position, self._clock.counted_ms())

    def asks_the_lake(self) -> bool:
        """Whether the oldest segment would leave if it is in the lake: then it is time to look there."""
        return len(self._store.segments) > 1 and self._is_time(*self.room())

    @property
    def oldest_is_certain(self) -> bool:
        """Whether the lake holds the oldest segment, be it for a moment only."""
        return self._store.segments[0].end_position <= self._certain_position

    @property
    def held_position(self) -> int:
        """Up to where the lake must hold the log: where the log begins, but for what was dropped."""
        return self.dropped.held(self._store.segments[0].base_position)

    # Room ------------------------------------------------------------------------------------

    def no_room(self) -> str | None:
        """Why nothing may be written, or None."""
        if (left := self._store.left()) is not None:
            return left
        free, most, taken = self.room()[0], self._settings.log_bytes_max, self._store.size
        if free < self._settings.free_bytes_min:
            least = self._settings.free_bytes_min
            return f"the disk has {size(free)} free, below storage.free_bytes_min ({size(least)})"
        if most and taken >= most and not (self._drops and self.jump is None):  # else some go at the next look
            return f"the log has {size(taken)}, and storage.log_bytes_max is {size(most)}"
        return None

    def lacking(self) -> int:
        """So many bytes must go that a whole segment more can be written; none where it is 0 or less."""
        settings = self._settings
        lacking = settings.free_bytes_min + settings.segment_bytes - self.room()[0]
        if settings.log_bytes_max:
            lacking = max(lacking, self._store.size + settings.segment_bytes - settings.log_bytes_max)
        return lacking

    def on_segment(self, look: Callable[[], object]) -> None:
        """Have `look` called whenever a segment begins: there may be too little room for the next one."""
        self._store.on_begin = look

    @property
    def _drops(self) -> bool:
        return self._settings.when_full == "drop_oldest"

    def to_drop(self) -> Segment | None:
        """The oldest segment, where it must go even if the lake doesn't hold it. Never the one that is written,
        and none by a clock that isn't believed."""
        if not self._drops or self.jump is not None or len(self._store.segments) < 2 or self.lacking() <= 0:
            return None
        oldest = self._store.segments[0]
        return None if oldest.sealing else oldest

    def drop(self, state: LogState) -> Range:
        """Remove the oldest segment, whatever waits in it. Those positions of it that the lake wasn't known to hold
        are written down before. Raises `OSError`."""
        oldest = self._store.segments[0]
        base, end = oldest.base_position, oldest.end_position
        gone = min(max(base, self._certain_position), end), end
        self._write_down(lambda: self.dropped.add(*gone) if gone[0] < gone[1] else self.dropped.settle())
        try:
            self._store.remove_oldest(state.topics, "there is no room")
        finally:
            self.dropped.take_back(self._store.segments[0].base_position)
        return gone

    def _write_down(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError:
            # There may be no room even for that. The oldest segment's index can be made again.
            self._files.remove(self._store.segments[0].index_path)
            write()

    # Segments --------------------------------------------------------------------------------

    def retain(self, state: LogState, segments_max: int | None = None) -> int:
        """Remove the old segments that may go, at most so many; returns how many went. The one that is written never
        goes."""
        _ = self.steady_ms
        self._remember_jump()
        removed = 0
        while removed != segments_max and self._oldest_is_over():
            end = self._store.segments[0].end_position
            if self._is_pinned(state.routing, end) or self._has_delays(state.routing, end):
                break
            self._write_down(self.dropped.settle)
            self._store.remove_oldest(state.topics)
            removed += 1
        return removed

    def held_by_delays(self, routing: RoutingState) -> int | None:
        """The end of the oldest segment, if it would leave but for scheduled messages that wait."""
        if not self._oldest_is_over():
            return None
        end = self._store.segments[0].end_position
        return end if self._has_delays(routing, end) and not self._is_pinned(routing, end) else None

    def _oldest_is_over(self) -> bool:
        segments = self._store.segments
        if len(segments) < 2 or segments[0].end_position > self._grace.past(self._clock.counted_ms()):
            return False
        return self._is_time(*self.room())

    def _is_time(self, free: int, total: int) -> bool:
        if total - free > total * self._settings.disk_high_ratio:
            return True
        settings = self._settings
        if (self._drops or settings.log_bytes_max) and self.lacking() > 0:
            return True
        return self._store.segments[0].last_store_time_ms < self.steady_ms - self._settings.retention_ms

    def room(self) -> tuple[int, int]:
        """Free bytes of the disk, and all of them."""
        return self._files.free_bytes(self._directory)

    @staticmethod
    def _is_pinned(routing: RoutingState, end: int) -> bool:
        """Whether something below position `end` must stay there."""
        return routing.pinned_position(end) < end

    @staticmethod
    def _has_delays(routing: RoutingState, end: int) -> bool:
        """Whether scheduled messages wait below position `end`: they may move on."""
        return routing.begin_position(routing.delays, end) < end
