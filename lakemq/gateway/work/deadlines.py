"""When the time of those who wait is over: a timer for all of whom it is over at about the same time."""

from __future__ import annotations

import asyncio
import math

from lakemq.web.gone import finish

LATE_BITS = 7
"""A wait ends late by up to a 64th of its time, which is a power of two for all that are about as long,"""
LATE_S_MIN, LATE_S_MAX = 0.001, 0.1
"""and which is between these."""


class Deadlines:
    """Of one event loop. A timer of its own for each would cost a long poll as much as its answer's head."""

    def __init__(self) -> None:
        self._at: dict[float, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """How many timers there are."""
        return len(self._at)

    def add(self, future: asyncio.Future[None], seconds: float) -> set[asyncio.Future[None]]:
        """Finish the future when the time is over, unless it is taken out of what this returns before."""
        loop = asyncio.get_running_loop()
        late_s = math.ldexp(1.0, math.frexp(max(seconds, LATE_S_MIN))[1] - LATE_BITS)
        late_s = min(max(late_s, LATE_S_MIN), LATE_S_MAX)
        at = math.ceil((loop.time() + max(seconds, 0.0)) / late_s) * late_s
        together = self._at.get(at)
        if together is None:
            together = self._at[at] = set()
            loop.call_at(at, self._over, at)
        together.add(future)
        return together

    def _over(self, at: float) -> None:
        for future in self._at.pop(at):
            finish(future)
