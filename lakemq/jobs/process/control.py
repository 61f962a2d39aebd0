"""These jobs, for who asks at the address where they answer SQL: how they are, and maintenance on request."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.catalogue import JOBS
from lakemq.jobs.maintenance.told import BY_COMMAND, ToldMaintenance
from lakemq.jobs.process.board import Board
from lakemq.jobs.replay.plan import KNOWN_MAX, known_plans
from lakemq.model.errors import FlowControl, InvalidRequest
from lakemq.settings import Settings

PLANS_S = 5.0
"""So long what was read of replays' plans is told again: with many pages open too they are read no more often."""
WAITING_MAX = 20
"""So many requests at most wait for their turn."""


class Control:
    """Those of one process. For any thread."""

    def __init__(
        self, board: Board, maintenance: ToldMaintenance, settings: Settings, now_ms: Callable[[], int]
    ) -> None:
        self._board = board
        self._maintenance = maintenance
        self._settings = settings
        self._now_ms = now_ms
        self._lock = Lock()
        self._plans: tuple[float, list[dict[str, Any]]] | None = None

    def describe(self) -> dict[str, Any]:
        """As `GET /v1/jobs` answers. Raises `OSError` where the lake can't be read now."""
        return {
            "now_ms": self._now_ms(),
            "queries": self._board.describe(),
            "maintenance": self._maintenance.describe(),
            "replays": self._replays(),
        }

    def _replays(self) -> list[dict[str, Any]]:
        with self._lock:
            now_s = time.monotonic()
            if self._plans is None or now_s - self._plans[0] > PLANS_S:
                self._plans = now_s, known_plans(self._settings.lake.dir, KNOWN_MAX)
            return self._plans[1]

    def check_run(self, job: str) -> None:
        """Raises `InvalidRequest` for a job that isn't run so, and `FlowControl` where too many wait."""
        self.check_cancel(job)
        if job in BY_COMMAND:
            raise InvalidRequest(f"{job} can't be undone, so it is run by command alone")
        if len(requests.waiting(self._settings.lake.dir)) >= WAITING_MAX:
            raise FlowControl(f"{WAITING_MAX} requests wait already")

    def submit(self, job: str, asked_by: str) -> str:
        """Have the job run, after what waits; the request's id."""
        return requests.submit(self._settings.lake.dir, job, {}, asked_by)

    def check_cancel(self, job: str) -> None:
        """Raises `InvalidRequest` where there is no such job."""
        if job not in JOBS:
            raise InvalidRequest(f"no job {job[:100]!r}; there are {', '.join(JOBS)}")

    def cancel(self, job: str, asked_by: str) -> str:
        """Have the run of that job end that is under way, and drop those that wait; the request's id."""
        return requests.submit(self._settings.lake.dir, requests.CANCEL, {"job": job}, asked_by)
