"""The files of rows that were deleted: removed at once, whichever version of the table needs them.

Only files that Delta's log has named are removed at once. What it has never named may be a commit
that is just being made; that goes when it is an hour old and still has no name.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from lakemq.jobs.maintenance.requests import FOLDER
from lakemq.jobs.maintenance.work import Work
from lakemq.objects.path import delta_options, opened
from lakemq.objects.table_place import delta_place
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.object_files import files_of

_BEGUN = "erasing"
_UNNAMED_MS = 3_600_000
_LOG_RETENTION = timedelta(hours=26)
"""As `tables.table` sets it, and until `checkpoint-cleanup` runs."""


def has_begun(lake: Path) -> bool:
    """Whether rows were deleted whose files may still be there."""
    return (lake / FOLDER / _BEGUN).exists()


def set_begun(lake: Path, *, begun: bool) -> None:
    """On disk on return: with the rows gone nothing else says that their files are to go."""
    file = lake / FOLDER / _BEGUN
    files = files_of(file)
    if begun:
        files.make_dirs(file.parent)
        files.replace(file, [b""])
        files.sync_above(file)
    else:
        files.remove(file)


def remove_files(work: Work, path: Path) -> dict[str, int]:
    """Removes the files that the table's present version does not need; how many, and their bytes."""
    there = _data_files(path)  # before the version is read: what is committed after that has a name in it
    named_before = _tombstones(work, path)
    needed = _needed(path)
    hour_ago_ms = SystemClock().now_ms() - _UNNAMED_MS
    files = size = 0
    for file in there:
        try:
            found = file.stat()
            if file.name in needed or (file.name not in named_before and found.st_mtime * 1000 > hour_ago_ms):
                continue
            file.unlink()
        except FileNotFoundError:
            continue
        files, size = files + 1, size + found.st_size
    return {"files": files, "bytes": size}


def what_waits(work: Work) -> list[str]:
    """What still holds a trace, in words, and until when."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    until = (now + _LOG_RETENTION).isoformat(timespec="minutes")
    waits = [f"the tables' logs hold the least and greatest keys of removed files as statistics, until about {until}"]
    left = sum(_count_unneeded(path) for path in work.paths())
    if left:
        waits.append(f"{left} file(s) of commits under way, or failed within the hour: `vacuum` removes these")
    return waits


def _tombstones(work: Work, path: Path) -> set[str]:
    """Names of the files that Delta's log says were removed."""
    jvm: Any = work.session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = work.session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session, str(path))
    removed = DataFrame(log.update(False, none, none).tombstones().toDF(), work.session).select("path")
    return {Path(unquote(name)).name for name in removed.toArrow()["path"].to_pylist()}


def _needed(path: Path) -> set[str]:
    """Names of the files of the table's present version."""
    table = DeltaTable(delta_place(path), storage_options=delta_options(path))
    return {Path(unquote(name)).name for name in table.file_uris()}


def _count_unneeded(path: Path) -> int:
    there = {file.name: file for file in _data_files(path)}
    needed = _needed(path)
    return sum(_holds_rows(file) for name, file in there.items() if name not in needed)


def _holds_rows(file: Path) -> bool:
    """False of the empty files that Spark leaves where a task had no rows, and of one that is gone."""
    try:
        return pq.read_metadata(opened(file)).num_rows > 0
    except FileNotFoundError:
        return False
    except pa.ArrowException:
        return True  # it is being written


def _data_files(path: Path) -> list[Path]:
    """Of whatever version; each has a name of its own."""
    return [file for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
