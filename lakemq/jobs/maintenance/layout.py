"""The jobs `optimize` and `vacuum`: few files, and none that nobody needs.

The lake query's own thread merges files as they come (`jobs.lake.merging`). `optimize` merges what still waits
there for more of its kind; of `scheduled`, the days on which messages ended, which the query only adds to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakemq.jobs.lake.merging import limits_of
from lakemq.jobs.maintenance.runs import RUNS
from lakemq.jobs.maintenance.stats import STATS
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.table_files import TableFiles, look_at
from lakemq.jobs.tables.turns import turn_of
from lakemq.objects.table_place import sql_place
from lakemq.storage.lake.delta_log import is_made
from lakemq.storage.lake.merge_files import Abandoned


def optimize(work: Work) -> Outcome:
    """Merges the files of each table in which enough are not done."""
    done: dict[str, Any] = {}
    for table in work.tables():
        work.check()
        layout, limits = table.layout(work.lake), limits_of(work.settings.lake)
        merger = TableMerger(work.session, layout, work.lake, limits, work.is_to_end, work.driver)
        if merger.unfinished() >= work.options.small_files_min:
            before = files_of(work, table)
            _finish(work, merger)
            after = files_of(work, table)
            done[table.name] = {"files_before": before.files, "files_after": after.files, "bytes": after.bytes}
    # Spark's own way puts files with other columns, or other fields of a column, together too.
    for path in (work.lake / RUNS, work.lake / STATS, *(each.path for each in work.topic_tables())):
        work.check()
        if is_made(path) and look_at(path, work.options.small_file_bytes).small_files >= work.options.small_files_min:
            work.forget_cached()
            with turn_of(path):
                work.session.sql(f"OPTIMIZE {sql_place(path)}").collect()
    return Outcome({"tables": done})


def vacuum(work: Work) -> Outcome:
    """Deletes the files that no version of the last day needs (`delta.deletedFileRetentionDuration` of
    the tables: VACUUM heeds no other)."""
    work.check_clock()
    work.bring_to_disk()
    deleted: dict[str, Any] = {}
    for path in [*work.paths(), work.lake / RUNS, work.lake / STATS]:
        work.check()
        if is_made(path):
            before = bytes_on_disk(path)
            work.session.sql(f"VACUUM {sql_place(path)}").collect()
            after = bytes_on_disk(path)
            deleted[path.name] = {"files": before[0] - after[0], "bytes": before[1] - after[1]}
    return Outcome({"deleted": deleted})


def files_of(work: Work, table: LakeTable) -> TableFiles:
    return look_at(table.path(work.lake), work.options.small_file_bytes, table.partition_by)


def bytes_on_disk(path: Path) -> tuple[int, int]:
    """How many data files there are in the table's folder, of whatever version, and their bytes."""
    sizes = [file.stat().st_size for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
    return len(sizes), sum(sizes)


def _finish(work: Work, merger: TableMerger) -> None:
    try:
        merger.finish()
    except Abandoned:
        work.check()
        raise
