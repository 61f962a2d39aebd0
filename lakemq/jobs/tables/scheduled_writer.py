"""Writes the table `scheduled`: merges each batch's changes into the few files that they concern.

Delta's MERGE looks for the rows to change in two passes over the table. Here one does: an effect
carries when its message was due, and the files of what waits are written in the order of that, so
their statistics say which of them can hold the message. The commit removes these files and adds
what became of their rows, with the progress: all or nothing, as every commit of the lake.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.tables.delta_files import DeltaFile, files_of, list_files, read_files
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.scheduled import ended_dues, merged

FILE_ROWS = 100_000
"""Rows of a file of what waits: what a batch rewrites for one message that ends."""

SMALL_FILES_MAX = 32
"""So many files of less than half of that are merged with the next batch."""

TURN = Lock()
"""Held by who writes files of what waits again: of two at once one would fail."""

_DUE = "due"
_ENDED = "ended_date"


class ScheduledWriter(DeltaWriter):
    """As `DeltaWriter`; what it appends are changes, `SCHEDULED.rows` of the log."""

    def __init__(self, session: SparkSession, path: Path, logs: Mapping[str, str] | None = None) -> None:
        super().__init__(session, path, logs)
        self._waiting: list[DeltaFile] = []
        self._waiting_version = -1
        conf: Any = self._java_session.sessionState().conf()
        none: Any = getattr(self._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        options = none.updated("maxRecordsPerFile", str(FILE_ROWS))
        self._options: Any = self._jvm.scala.Some(self._delta.DeltaOptions(options, conf))

    def least_due_ms(self) -> int | None:
        """When the first of what waits is due, in milliseconds since 1970; None: nothing waits."""
        snapshot = self._log.update(False, self._none(), self._none())
        return min((file.least_ms for file in self._files(snapshot)), default=None)

    def append(self, frame: DataFrame | None, ends: Mapping[str, int], epoch: int) -> None:
        with TURN:
            self._append(frame, ends, epoch)

    def _append(self, frame: DataFrame | None, ends: Mapping[str, int], epoch: int) -> None:
        transaction = self._begin(ends)
        snapshot = transaction.snapshot()
        files = self._files(snapshot)
        if frame is None:
            version, added, removed = self._commit(transaction, self._no_actions(), ends, epoch), [], []
        else:
            frame.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                removed = _concerned(files, _column(ended_dues(frame)))
                actions = self._merge(transaction, removed, frame)
                added = files_of(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(actions), _DUE, _ENDED)
                for file in removed:
                    actions = actions.appended(file.action.remove())
                version = self._commit(transaction, actions, ends, epoch)
            finally:
                frame.unpersist()
        if version == snapshot.version() + 1:
            self._waiting = [file for file in files if file not in removed] + added
            self._waiting_version = version

    def _merge(self, transaction: Any, files: Sequence[DeltaFile], changes: DataFrame) -> Any:
        """Writes what becomes of the rows of `files`, and what begins; the files that it made."""
        waiting = read_files(self._session, self._log, transaction.snapshot(), files) if files else None
        rows = merged(waiting, changes).repartition(1).sortWithinPartitions(_ENDED, _DUE)
        return transaction.writeFiles(rows._jdf, self._options)  # pyright: ignore[reportPrivateUsage]

    def _files(self, snapshot: Any) -> list[DeltaFile]:
        """The files of what waits, as of that version; they are listed only where others wrote."""
        if snapshot.version() != self._waiting_version:
            self._waiting = list_files(snapshot, _DUE, _ENDED)
            self._waiting_version = snapshot.version()
        return self._waiting


def _concerned(files: Sequence[DeltaFile], some_dues: list[int | None]) -> list[DeltaFile]:
    """The files that can hold a message due at one of the times (None: any), and small ones that are
    too many."""
    dues = sorted(due for due in some_dues if due is not None)
    if len(dues) < len(some_dues):
        return list(files)
    chosen = [file for file in files if _any_within(dues, file.least_ms, file.greatest_ms)]
    small = [file for file in files if file.rows < FILE_ROWS // 2 and file not in chosen]
    return chosen + small if len(small) > SMALL_FILES_MAX else chosen


def _any_within(ordered: list[int], least: int, greatest: int) -> bool:
    at = bisect_left(ordered, least)
    return at < len(ordered) and ordered[at] <= greatest


def _column(frame: DataFrame) -> list[int | None]:
    return frame.toArrow().column(0).to_pylist()
