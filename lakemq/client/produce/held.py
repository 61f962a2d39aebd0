"""Whether a producer's lock is held by code that the caller has interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable

INTERRUPTED = (
    "a signal handler, or a finalizer, can't use a producer in the middle of one of its calls: "
    "in a handler raise SystemExit, and use the producer where that ends the program"
)


def holder_of(lock: threading.RLock) -> Callable[[], bool]:
    """Says whether the lock is the calling thread's already, as where a signal's handler has interrupted who took it.
    The event loop then waits for the lock, and so whoever waits for the event loop waits forever."""
    return lock._is_owned  # pyright: ignore  as `threading.Condition` asks it


def check_held(is_held: Callable[[], bool]) -> None:
    """Raises `RuntimeError` where it is."""
    if is_held():
        raise RuntimeError(INTERRUPTED)
