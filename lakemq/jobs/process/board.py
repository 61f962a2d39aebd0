"""What the queries of this process do now, and how their last batches went, for whoever asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from lakemq.traces.batches import BatchDone

WAITING, STARTING, RUNNING, FAILED = "waiting", "starting", "running", "failed"
"""For a broker that answers; to be ready; for messages, or doing a batch; to be started again after a failure."""
BATCHES_KEPT = 20
ERROR_CHARACTERS_MAX = 500


@dataclass
class _Query:
    jobs: tuple[str, ...]
    state: str = WAITING
    since_ms: int = 0
    starts: int = 0
    batches: int = 0
    error: dict[str, Any] | None = None
    recent: deque[BatchDone] = field(default_factory=lambda: deque[BatchDone](maxlen=BATCHES_KEPT))


class Board:
    """By the queries' names. For any thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._queries: dict[str, _Query] = {}
        self._lock = Lock()

    def waits(self, name: str, jobs: Sequence[str]) -> None:
        """For a broker that answers."""
        with self._lock:
            self._queries.setdefault(name, _Query(tuple(jobs)))
        self._put(name, WAITING)

    def starts(self, name: str) -> None:
        """A run begins."""
        self._put(name, STARTING)

    def runs(self, name: str) -> None:
        """It is ready."""
        self._put(name, RUNNING)

    def failed(self, name: str, error: str) -> None:
        """A run ended by that; it is started again."""
        self._put(name, FAILED, error)

    def _put(self, name: str, state: str, error: str = "") -> None:
        now_ms = self._now_ms()
        with self._lock:
            query = self._queries.setdefault(name, _Query((name,)))
            query.starts += state == STARTING
            if query.state != state or not query.since_ms:
                query.state, query.since_ms = state, now_ms
            if error:
                query.error = {"at_ms": now_ms, "text": error[:ERROR_CHARACTERS_MAX]}

    def observe(self, done: BatchDone) -> None:
        """A batch has ended, however it did."""
        with self._lock:
            query = self._queries.setdefault(done.job, _Query((done.job,)))
            query.batches += 1
            if done.rows or done.error or not query.recent or query.recent[-1].rows or query.recent[-1].error:
                query.recent.append(done)
            else:  # of empty ones on end the last is kept
                query.recent[-1] = done

    def describe(self) -> list[dict[str, Any]]:
        """Each query: its name, the jobs it does, state, since when, how often it was started, its last error, how many
        batches it has done, and the last of them, the newest first."""
        with self._lock:
            return [
                {
                    "query": name,
                    "jobs": list(query.jobs),
                    "state": query.state,
                    "since_ms": query.since_ms,
                    "starts": query.starts,
                    "error": query.error,
                    "batches": query.batches,
                    "recent": [
                        {"ended_ms": each.ended_ms, "took_ms": each.took_ms, "rows": each.rows, "error": each.error}
                        for each in reversed(query.recent)
                    ],
                }
                for name, query in self._queries.items()
            ]
