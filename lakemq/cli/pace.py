"""Doing something at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 0.1


class Pace:
    """Holds back who does more than `rate_per_s`; None: nobody."""

    def __init__(
        self,
        rate_per_s: float | None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._free_at = monotonic()

    def step(self, count_max: int) -> int:
        """How many to do at a time: a tenth of a second's, at least one."""
        return count_max if self._rate_per_s is None else max(min(count_max, int(self._rate_per_s * STEP_S)), 1)

    def wait(self, count: int) -> None:
        """Return when so many may be done. Time in which nothing was done gives no more room later."""
        if self._rate_per_s is None:
            return
        now = self._monotonic()
        self._free_at = max(self._free_at, now)
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at += count / self._rate_per_s
