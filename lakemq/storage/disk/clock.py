"""The one place that reads a clock. `lakemq.testing.ManualClock` is the other implementation."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from lakemq.model.steady_clock import Reading, SteadyClock

logger = logging.getLogger(__name__)


class Clock(Protocol):
    """What time it is."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. May go back when the system's clock is set."""
        ...

    def counted_ms(self) -> int:
        """Milliseconds since whenever, also while the machine sleeps. Nobody sets it; another boot counts anew."""
        ...


class SystemClock:
    """The system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def counted_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class TrustedClock:
    """Another clock, but one that has jumped ahead isn't followed before it has stayed there for `confirm_ms`:
    by this one nothing is due, stamped or lost too early. It never goes back. What it tells is the broker's time."""

    def __init__(self, clock: Clock, confirm_ms: int) -> None:
        self._clock = clock
        self._last = Reading(clock.now_ms(), clock.counted_ms())
        self._steady = SteadyClock(self._last, confirm_ms)
        self._is_ahead = False

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, never less than before."""
        wall_ms, counted_ms = self._clock.now_ms(), self._clock.counted_ms()
        if (wall_ms, counted_ms) == self._last:  # each frame asks, and there are several in a millisecond
            return self._steady.time_ms
        self._last = Reading(wall_ms, counted_ms)
        time_ms = self._steady.observe(self._last)
        jump = self._steady.jump
        if (jump is not None) != self._is_ahead:
            self._is_ahead = jump is not None
            if jump is not None:
                logger.warning("the clock has jumped ahead by %d ms: it is ignored until it stays there", jump.ahead_ms)
            else:
                logger.warning("the clock is used again: it has stayed where it jumped to, or is back")
        return time_ms

    def counted_ms(self) -> int:
        """What the other clock counts."""
        return self._clock.counted_ms()
