"""How maintenance is, for whoever asks often: what is read of the lake is read again only after a run."""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.overview import overview_of
from lakemq.jobs.maintenance.requests import CANCEL
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import Run, read_runs
from lakemq.model.latest import latest_of
from lakemq.settings import Settings

RUNS_TOLD_MAX = 30
RUNS_OF_JOB_TOLD_MAX = 10
"""Of each job, beside those: hourly jobs would soon push out an erasure."""
WAITING_TOLD_MAX = 20
TEXT_CHARACTERS_MAX = 500
BY_COMMAND = ("erase", "adopt")
"""What these do can't be undone: they are commands, which ask."""


class ToldMaintenance:
    """That of one process. For any thread."""

    def __init__(self, runner: Runner, settings: Settings) -> None:
        self._runner = runner
        self._settings = settings
        self._lock = Lock()
        self._read: tuple[int, list[Run]] | None = None

    def describe(self) -> dict[str, Any]:
        """The run that is under way, what was asked for and waits, each job with its schedule and last run, and the
        last runs, of all and of each job, the newest first."""
        runs = self._runs()
        last: dict[str, Run] = {}
        for run in runs:
            last.setdefault(run.job, run)
        waiting = [each for each in requests.waiting(self._settings.lake.dir) if each.job != CANCEL and not each.starts]
        jobs = overview_of(self._settings, last)
        return {
            "under_way": self._runner.describe(),
            "waiting": [
                {"job": each.job[:100], "asked_ms": each.asked_at, "asked_by": each.asked_by}
                for each in waiting[:WAITING_TOLD_MAX]
            ],
            "jobs": [
                row | {"last": _told(last.get(row["job"])), "by_command": row["job"] in BY_COMMAND} for row in jobs
            ],
            "runs": [_told(run) for run in latest_of(runs, lambda run: run.job, RUNS_TOLD_MAX, RUNS_OF_JOB_TOLD_MAX)],
        }

    def _runs(self) -> list[Run]:
        with self._lock:
            noted = self._runner.noted
            if self._read is None or self._read[0] != noted:
                self._read = noted, read_runs(self._settings.lake.dir)
            return self._read[1]


def _told(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    told = run.as_json() | {"detail": json.dumps(run.detail, ensure_ascii=False)[:TEXT_CHARACTERS_MAX]}
    return told | {"error": None if run.error is None else run.error[:TEXT_CHARACTERS_MAX]}
