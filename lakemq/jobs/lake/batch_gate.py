"""Between a query's batches and whoever stops the query."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from lakemq.model.errors import LakemqError


class QueryStopping(LakemqError):
    """The batch came when its query was to stop: it is not carried out, and not committed."""

    code = "query_stopping"


class BatchGate:
    """Lets the batch that is under way finish, and none begin, once the gate is closed.

    Spark's `stop` waits for its thread, and that waits for a batch's function to return: who held a
    lock across `stop` that the function takes would wait for ever.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False

    def run(self, batch: Callable[[], None]) -> None:
        """Carry out a batch. Raises `QueryStopping` once the gate is closed."""
        with self._lock:
            if self._closed:
                raise QueryStopping("the query stops")
            batch()

    def close(self, grace_s: float) -> bool:
        """Return when no batch is under way, or after `grace_s` seconds; whether none is."""
        self._closed = True
        is_free = self._lock.acquire(timeout=grace_s)
        if is_free:
            self._lock.release()
        return is_free
