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
from lakemq.storage.lake.delta_log import all_of_log, drop_old_sums, half_written
from lakemq.storage.lake.heal import drop_set_aside

_DAY_MS = 86_400_000


def clean_up(work: Work) -> Outcome:
    """Removes checkpoints that no query has written for a day, results that nobody fetched for a day, entries of
    tables' logs that a crash left half written, or that were set aside a day ago, and the rows of runs past
    `runs_retention_ms`. Has each table's log let go of its past."""
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
    left = _remove_older(files, now_ms - _DAY_MS)
    runs = forget_runs(work.lake, now_ms - work.options.runs_retention_ms)
    halves, log_files = _clean_logs(work, now_ms - _DAY_MS)
    aside = drop_set_aside(work.lake, now_ms - _DAY_MS)
    counts = {"checkpoints": removed, "files": left + halves, "runs": runs, "log_files": log_files, "set_aside": aside}
    return Outcome(counts)


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


def _clean_logs(work: Work, before_ms: int) -> tuple[int, int]:
    """How many files that a crash left half written are gone from all tables' logs, and how many others."""
    halves, others = 0, 0
    for path in work.paths():
        work.check()
        before = all_of_log(path)
        removed = _remove_older(half_written(before), before_ms)
        TableLog(work.session, path).clean_up()
        after = all_of_log(path)  # Delta doesn't say what it has removed
        halves += removed
        others += max(0, len(before) - removed - len(after) + drop_old_sums(after))
    return halves, others
