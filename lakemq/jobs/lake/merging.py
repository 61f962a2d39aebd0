"""Keeps the files of the lake's tables few while the lake query writes them, a bit after each batch."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from lakemq.jobs.lake.topic_merging import TopicMerging
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.table import Layout
from lakemq.jobs.tables.tables import TABLES
from lakemq.jobs.tables.topic_table import layout_of_topic_table
from lakemq.model.merging import Limits
from lakemq.settings import Lake
from lakemq.storage.lake.merge_files import Abandoned

NICENESS = 19
"""Of its thread: whatever else there is to do comes first, the query's own work too."""

_STOP_S_MAX = 20.0
_PAUSE_S_MAX = 600.0
_POOL = "maintenance"

logger = logging.getLogger(__name__)


class Merging:
    """One thread that merges what batches have written, from `start` to `stop`: within the life of one run of the lake
    query, as tables may be put back between two. What fails is logged, and tried again after a pause."""

    def __init__(self, session: SparkSession, lake: Lake, driver: Driver) -> None:
        self._session = session
        limits = limits_of(lake)

        def merger_of(layout: Layout) -> TableMerger:
            return TableMerger(session, layout, lake.dir, limits, self._is_stopped, driver)

        self._tables = [_Table(table.name, merger_of(table.layout(lake.dir))) for table in TABLES]
        self._topic_tables = TopicMerging(lambda path: merger_of(layout_of_topic_table(path)), limits.files)
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="merging", daemon=True)

    def start(self) -> None:
        """Begins with what an earlier run has left."""
        self._wake.set()
        self._thread.start()

    def batch_written(self) -> None:
        """To be called after each batch; returns at once."""
        self._wake.set()

    def topic_table_written(self, table: Path) -> None:
        """To be called after each file that was added to a topic's own table, and when that is first known; returns at
        once."""
        if self._topic_tables.written(table):
            self._wake.set()

    def stop(self) -> bool:
        """Abandons the merge that is under way; what is being committed is, within some seconds. Whether it has
        ended."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S_MAX)
        return not self._thread.is_alive()

    def _is_stopped(self) -> bool:
        return self._stopped

    def _run(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        while not self._stopped:
            self._wake.wait(self._topic_tables.wait_s())
            self._wake.clear()
            while self._round():
                pass

    def _round(self) -> bool:
        """A merge of each table, at most, and one of a topic's: those of one don't wait until another has done all of
        its own."""
        merged = [each.step() for each in (*self._tables, self._topic_tables) if not self._stopped]
        return any(merged) and not self._stopped


class _Table:
    """One of the tables, left alone for a while where a merge of it fails."""

    def __init__(self, name: str, merger: TableMerger) -> None:
        self._name, self._merger = name, merger
        self._failures = 0
        self._again_s = 0.0

    def step(self) -> bool:
        """Whether something was merged."""
        if time.monotonic() < self._again_s:
            return False
        try:
            merged = self._merger.step()
        except Abandoned:
            return False
        except Exception as error:  # noqa: BLE001 (of any kind: the query goes on, and so do the other tables)
            self._failures += 1
            pause_s = min(2.0**self._failures, _PAUSE_S_MAX)
            self._again_s = time.monotonic() + pause_s
            line = (str(error).splitlines() or [""])[0]
            logger.warning("can't merge files of table %s: %s; retrying in %d s", self._name, line, pause_s)
            return False
        self._failures = 0
        return merged


def limits_of(lake: Lake) -> Limits:
    """As the settings have them."""
    return Limits(lake.merge_files, lake.file_bytes_max)
