"""The table `maintenance_runs`: a row for each run of a job, written and read without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
from deltalake import DeltaTable, write_deltalake

from lakemq.jobs.tables.schemas import RUNS, SCHEMAS
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place
from lakemq.storage.lake.delta_log import is_made

pc: Any = pyarrow.compute

DONE, DIFFERS, FAILED, STOPPED, CANCELLED = "done", "differs", "failed", "stopped", "cancelled"
"""How a run ended; `differs`: it compared things, and they don't agree; `stopped`: its process was asked to stop;
`cancelled`: it was itself."""

_PROPERTIES = {"delta.logRetentionDuration": "interval 2 days", "delta.deletedFileRetentionDuration": "interval 1 days"}


@dataclass(frozen=True)
class Run:
    """One run: times in milliseconds since 1970, files and bytes of all tables together."""

    run_id: str
    job: str
    started_by: str
    started_at: int
    ended_at: int
    attempts: int
    result: str
    error: str | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    detail: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """As it is shown and handed on."""
        return asdict(self) | {"duration_ms": self.ended_at - self.started_at}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Run:
        return cls(**{each.name: content[each.name] for each in fields(cls)})


def append_run(lake: Path, run: Run) -> None:
    """Adds the row; makes the table where there is none."""
    row = asdict(run) | {
        "started_at": _moment(run.started_at),
        "ended_at": _moment(run.ended_at),
        "detail": json.dumps(run.detail, ensure_ascii=False),
    }
    write_deltalake(
        delta_place(lake / RUNS),
        pa.Table.from_pylist([row], SCHEMAS[RUNS]),
        mode="append",
        configuration=_PROPERTIES,
        storage_options=delta_options(lake),
    )


def read_runs(lake: Path, job: str | None = None, limit: int | None = None) -> list[Run]:
    """The newest runs first; of one job, or of all."""
    if not is_made(lake / RUNS):
        return []
    rows = DeltaTable(delta_place(lake / RUNS), storage_options=delta_options(lake)).to_pyarrow_table()
    if job is not None:
        rows = rows.filter(pc.equal(rows["job"], job))
    return [_run(row) for row in rows.sort_by([("started_at", "descending")]).slice(0, limit).to_pylist()]


def last_runs(lake: Path) -> dict[str, Run]:
    """The last run of each job."""
    return {run.job: run for run in reversed(read_runs(lake))}


def forget_runs(lake: Path, before_ms: int) -> int:
    """Deletes the rows of runs that began before; how many."""
    if not is_made(lake / RUNS):
        return 0
    # A plain CAST makes nanoseconds, which delta-rs does not compare with the column's microseconds.
    moment = f"arrow_cast('{_moment(before_ms).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    done = DeltaTable(delta_place(lake / RUNS), storage_options=delta_options(lake)).delete(f"started_at < {moment}")
    return int(done.get("num_deleted_rows") or 0)


def _run(row: dict[str, Any]) -> Run:
    times = {name: int(row[name].timestamp() * 1000) for name in ("started_at", "ended_at")}
    return Run.from_json(row | times | {"detail": json.loads(row["detail"])})


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
