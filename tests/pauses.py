"""How long tests that wait for something wait before they look again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE_S_MIN, PAUSE_S_MAX = 0.01, 0.1
TRIES = 10


def pause(begun_s: float) -> None:
    """Sleep for a twentieth of what has passed since then, of `time.monotonic`: each look mostly is a request, and
    takes processor time from what is waited for."""
    time.sleep(min(PAUSE_S_MAX, max(PAUSE_S_MIN, (time.monotonic() - begun_s) / 20)))


def within(limit_s: float, look: Callable[[], T]) -> T:
    """What is seen of something that stays so for so long: where this process stood still meanwhile, it looks again."""
    took_s = 0.0
    for _ in range(TRIES):
        begun_s, seen = time.monotonic(), look()
        if (took_s := time.monotonic() - begun_s) < limit_s:
            return seen
    raise AssertionError(f"a look takes {took_s:.1f} s, and is of {limit_s:.1f} s")
