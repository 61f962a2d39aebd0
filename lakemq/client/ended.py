"""An event that a signal's handler may interrupt."""

from __future__ import annotations

import threading

from lakemq.client.held import check_held


class Ended:
    """Whether something has ended, for one thread that waits; made by that thread.

    It is a bare lock: an `Event` and a `Future` have a lock of their own, which who waits takes at times. A signal's
    handler that has interrupted him there may wait for the clients' loop, and the loop would wait for that lock."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        """Raises `RuntimeError` where the wait can't end, as this thread holds what the loop may wait for."""
        check_held()
        self._lock = threading.Lock()
        self._lock.acquire()

    def tell(self) -> None:
        """It has ended; told once."""
        self._lock.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for that, so long at most; whether it has ended in time."""
        return self._lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
