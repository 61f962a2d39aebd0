"""How long tests that wait for something wait before they look again."""

from __future__ import annotations

import time

PAUSE_S_MIN, PAUSE_S_MAX = 0.01, 0.1


def pause(begun_s: float) -> None:
    """Sleep for a twentieth of what has passed since then, of `time.monotonic`: each look mostly is a request, and
    takes processor time from what is waited for."""
    time.sleep(min(PAUSE_S_MAX, max(PAUSE_S_MIN, (time.monotonic() - begun_s) / 20)))
