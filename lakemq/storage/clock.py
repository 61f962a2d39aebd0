"""The one place that reads a clock. `lakemq.testing.ManualClock` is the other implementation."""

from __future__ import annotations

import time
from typing import Protocol


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
