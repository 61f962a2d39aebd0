"""Whether a lock of a producer is held by code that a signal has interrupted."""

from __future__ import annotations

import threading

HELD_S_MAX = 5.0
"""All locks of a producer are held for a few instructions: on the busiest machine not for so long."""
INTERRUPTED = (
    "a signal handler can't wait for a producer in the middle of one of its calls: "
    "raise SystemExit there, and close the producer where that ends the program"
)


def check_held(lock: threading.Lock) -> None:
    """Raises `RuntimeError` where the lock doesn't become free: whoever has it goes on only once the caller has
    returned, as with a handler of a signal that interrupted it."""
    free = False
    try:
        free = lock.acquire(timeout=HELD_S_MAX)
    finally:
        if free:
            lock.release()
    if not free:
        raise RuntimeError(INTERRUPTED)
