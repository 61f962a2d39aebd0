"""Each job with its schedule, when it is due next and its last run; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakemq.jobs.maintenance.catalogue import JOBS, schedules
from lakemq.jobs.maintenance.runs import Run, last_runs
from lakemq.settings import Settings
from lakemq.storage.disk.clock import SystemClock


def overview(settings: Settings) -> list[dict[str, Any]]:
    """In the order of the jobs: job, about, schedule, next_ms (since 1970; None: not due), last."""
    return overview_of(settings, last_runs(settings.lake.dir))


def overview_of(settings: Settings, last: Mapping[str, Run]) -> list[dict[str, Any]]:
    """The same, where the last run of each job is known."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    triggers = schedules(settings.maintenance)
    rows: list[dict[str, Any]] = []
    for job in JOBS.values():
        due = triggers[job.name].get_next_fire_time(None, now) if job.name in triggers else None
        schedule: str = "" if job.setting is None else getattr(settings.maintenance, job.setting)
        rows.append(
            {
                "job": job.name,
                "about": job.about,
                "schedule": schedule,
                "next_ms": None if due is None else int(due.timestamp() * 1000),
                "last": last[job.name].as_json() if job.name in last else None,
            }
        )
    return rows
