"""Clocks that are set by hand."""

from __future__ import annotations

import os
from pathlib import Path

from lakemq.storage.disk.clock import SystemClock


class ShiftedClock(SystemClock):
    """The system's clock, so many ms ahead."""

    def __init__(self, offset_ms: int) -> None:
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        """The shifted time."""
        return super().now_ms() + self._offset_ms


class FileClock(SystemClock):
    """The system's clock, as many ms ahead as stand in the file, which may be written anew in its place, with
    as many characters: the clock jumps then."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)  # kept: descriptors may run out under test

    def now_ms(self) -> int:
        """The shifted time."""
        return super().now_ms() + int(os.pread(self._descriptor, 32, 0))


class ManualClock:
    """A clock that stands still until it is set: to `time_ms`, as time passes. What it shows besides is
    `jumped_ms` ahead, as a wall clock that was set wrong."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms
        self.jumped_ms = 0

    def now_ms(self) -> int:
        """The time it was set to."""
        return self.time_ms + self.jumped_ms

    def counted_ms(self) -> int:
        """As much time as has passed."""
        return self.time_ms
