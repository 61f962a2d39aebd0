"""The jobs `optimize` and `vacuum`: few, large, clustered files, and none that nobody needs.

OPTIMIZE moves rows and changes none, so by Delta's rules it never conflicts with an append: its
commits and the lake query's interleave. Of `scheduled` it takes the days on which messages ended,
which the query only adds to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakemq.jobs.maintenance.runs import RUNS
from lakemq.jobs.maintenance.stats import STATS
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.table_files import TableFiles, is_table, look_at


def optimize(work: Work) -> Outcome:
    """Merges and clusters the files of each table in which enough are small."""
    done: dict[str, Any] = {}
    for table in work.tables():
        work.check()
        before = files_of(work, table)
        if before.small_files >= work.options.small_files_min:
            where = "" if table.partition_by is None else f" WHERE {table.partition_by} IS NOT NULL"
            _optimize(work, table.path(work.lake), where)
            after = files_of(work, table)
            done[table.name] = {"files_before": before.files, "files_after": after.files, "bytes": after.bytes}
    for name in (RUNS, STATS):
        path = work.lake / name
        work.check()
        if is_table(path) and look_at(path, work.options.small_file_bytes).small_files >= work.options.small_files_min:
            _optimize(work, path, "")
    return Outcome({"tables": done})


def vacuum(work: Work) -> Outcome:
    """Deletes the files that no version of the last day needs (`delta.deletedFileRetentionDuration` of
    the tables: VACUUM heeds no other)."""
    work.check_clock()
    work.bring_to_disk()
    deleted: dict[str, Any] = {}
    paths = [table.path(work.lake) for table in work.tables()]
    for path in [*paths, work.lake / RUNS, work.lake / STATS]:
        work.check()
        if is_table(path):
            before = bytes_on_disk(path)
            work.session.sql(f"VACUUM delta.`{path}`").collect()
            after = bytes_on_disk(path)
            deleted[path.name] = {"files": before[0] - after[0], "bytes": before[1] - after[1]}
    return Outcome({"deleted": deleted})


def files_of(work: Work, table: LakeTable) -> TableFiles:
    return look_at(table.path(work.lake), work.options.small_file_bytes, table.partition_by)


def bytes_on_disk(path: Path) -> tuple[int, int]:
    """How many data files there are in the table's folder, of whatever version, and their bytes."""
    sizes = [file.stat().st_size for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
    return len(sizes), sum(sizes)


def _optimize(work: Work, path: Path, where: str) -> None:
    work.forget_cached()
    work.session.sql(f"OPTIMIZE delta.`{path}`{where}").collect()
