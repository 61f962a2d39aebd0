"""Whether the calling thread holds a producer's lock, as where a signal's handler, or a finalizer, has interrupted who
took it. The clients' loop then waits for the lock, and so whoever waits for the loop waits forever."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

INTERRUPTED = (
    "a signal handler, or a finalizer, can't use this client in the middle of a producer's call: "
    "in a handler raise SystemExit, and use the client where that ends the program"
)

_locks: dict[int, weakref.ref[threading.RLock]] = {}
"""Of all producers whose messages the clients' loop sends; read and changed in single steps only, as by a handler."""


def watch(lock: threading.RLock) -> None:
    """Have `check_held` ask for it, as long as it is there."""
    key = id(lock)
    _locks[key] = weakref.ref(lock, lambda _: _locks.pop(key, None))


def holder_of(lock: threading.RLock) -> Callable[[], bool]:
    """Says whether the lock is the calling thread's already."""
    return lock._is_owned  # pyright: ignore  as `threading.Condition` asks it


def is_held() -> bool:
    """Whether one that is watched is the calling thread's."""
    locks = [found() for found in list(_locks.values())]
    return any(lock is not None and holder_of(lock)() for lock in locks)


def check_held() -> None:
    """Raises `RuntimeError` where it is."""
    if is_held():
        raise RuntimeError(INTERRUPTED)
