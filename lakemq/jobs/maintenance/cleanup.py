"""The job `checkpoint-cleanup`: what runs and requests of the past have left beside the tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from lakemq.jobs.lake.query import CHECKPOINTS
from lakemq.jobs.maintenance.requests import FOLDER
from lakemq.jobs.maintenance.runs import forget_runs
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.table_log import TableLog
from lakemq.objects.path import beside
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import drop_old_sums, half_written

_DAY_MS = 86_400_000


def clean_up(work: Work) -> Outcome:
    """Removes checkpoints that no query has written for a day, results that nobody fetched for a day, entries of
    tables' logs that a crash left half written, and the rows of runs past `runs_retention_ms`. Has each table's log let
    go of its past."""
    work.check_clock()
    now_ms = SystemClock().now_ms()
    checkpoints = [folder for folder in (beside(work.lake) / CHECKPOINTS).glob("*/*") if folder.is_dir()]
    removed = 0
    for folder in checkpoints:
        work.check()
        if _newest_ms(folder) < now_ms - _DAY_MS:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    files = [*(beside(work.lake) / FOLDER / "results").glob("*"), *(beside(work.lake) / FOLDER).rglob("*.tmp")]
    files += [each for path in work.paths() for each in half_written(path)]
    left = _remove_older(files, now_ms - _DAY_MS)
    runs = forget_runs(work.lake, now_ms - work.options.runs_retention_ms)
    return Outcome({"checkpoints": removed, "files": left, "runs": runs, "log_files": _clean_logs(work)})


def _newest_ms(folder: Path) -> float:
    """When something in the folder was written last; a running query writes with each batch."""
    newest = folder.stat().st_mtime
    for file in folder.rglob("*"):
        try:
            newest = max(newest, file.stat().st_mtime)
        except FileNotFoundError:
            continue
    return newest * 1000


def _remove_older(files: Iterable[Path], before_ms: int) -> int:
    count = 0
    for file in files:
        try:
            if file.stat().st_mtime * 1000 < before_ms:
                file.unlink()
                count += 1
        except FileNotFoundError:
            continue
    return count


def _clean_logs(work: Work) -> int:
    """How many files all tables' logs have fewer now."""
    count = 0
    for path in work.paths():
        work.check()
        before = len(list((path / "_delta_log").iterdir()))
        TableLog(work.session, path).clean_up()
        drop_old_sums(path)
        count += max(0, before - len(list((path / "_delta_log").iterdir())))
    return count
