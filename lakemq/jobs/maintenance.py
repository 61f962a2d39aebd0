"""Keeps the tables' files few, large and clustered, beside the query that appends to them.

OPTIMIZE moves rows and changes none, so by Delta's rules it never conflicts with an append. Its
commits and the query's interleave; a pass that fails leaves the table as it was.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.lake_tables import TABLES, LakeTable
from lakemq.settings import Settings

SMALL_FILE_BYTES = 64 * 1024 * 1024
SMALL_FILES_MIN = 16
"""A pass costs a second at least; below so many small files a table is left alone."""

VACUUM_PASSES = 24
"""Files that no version needs any more are deleted at every so-manieth pass that did something."""

_STOP_S_MAX = 10.0

logger = logging.getLogger(__name__)


def small_files(session: SparkSession, path: Path) -> int:
    """How many small files the table's present version has."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session, str(path))
    none = jvm.scala.Option.empty()
    files = DataFrame(log.update(False, none, none).allFiles().toDF(), session)
    return files.where(f"size < {SMALL_FILE_BYTES}").count()


def optimize_table(session: SparkSession, lake: Path, table: LakeTable) -> bool:
    """Merges and clusters the table's files when enough are small; whether it did."""
    path = table.path(lake)
    if not (path / "_delta_log").is_dir() or small_files(session, path) < SMALL_FILES_MIN:
        return False
    session.sql(f"OPTIMIZE delta.`{path}`").collect()
    return True


def vacuum_table(session: SparkSession, lake: Path, table: LakeTable) -> None:
    """Deletes the files that no version of the retention needs."""
    session.sql(f"VACUUM delta.`{table.path(lake)}`").collect()


class Maintenance:
    """A thread that makes a pass over the tables every `optimize_interval_ms`; 0 is never."""

    def __init__(self, session: SparkSession, settings: Settings) -> None:
        self._session = session
        self._lake = settings.lake.dir
        self._interval_s = settings.lake.optimize_interval_ms / 1000
        self._stopped = Event()
        self._passes = 0
        self._thread = Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        if self._interval_s > 0:
            self._thread.start()

    def stop(self) -> None:
        """Ends the pass that is under way, if any: its table stays as it was."""
        self._stopped.set()
        if self._thread.is_alive():
            self._session.sparkContext.cancelAllJobs()
            self._thread.join(_STOP_S_MAX)

    def pass_over(self) -> None:
        """One pass over all tables. What fails is logged and tried again at the next pass."""
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", "maintenance")
        worked = [table for table in TABLES if self._attempt(table)]
        self._passes += bool(worked)
        if worked and self._passes % VACUUM_PASSES == 0:
            for table in TABLES:
                vacuum_table(self._session, self._lake, table)

    def _attempt(self, table: LakeTable) -> bool:
        try:
            return optimize_table(self._session, self._lake, table)
        except Exception as error:  # noqa: BLE001 (of any kind: it must not end the lake query)
            if not self._stopped.is_set():
                logger.warning("OPTIMIZE of %s failed: %s", table.name, _first_line(error))
            return False

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self.pass_over()
            except Exception as error:  # noqa: BLE001 (as above)
                if self._stopped.is_set():
                    return
                logger.warning("maintenance failed: %s", _first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
