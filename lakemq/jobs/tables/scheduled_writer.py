"""Writes the table `scheduled`: merges each batch's changes into the few files that they concern.

Delta's MERGE looks for the rows to change in two passes over the table, and plans both anew for each batch. Here an
effect carries when its message was due, and the files of what waits are written in the order of that, so
their statistics say which of them can hold the message. The commit removes these files and adds
what became of their rows, with the progress: all or nothing, as every commit of the lake.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import SparkSession

from lakemq.jobs.tables.changes_file import read_changes
from lakemq.jobs.tables.delta_files import DeltaFile, file_of, list_files, read_file
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.scheduled_rows import Ends, begun, ended_dues_ms

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

FILE_ROWS = 100_000
"""Rows of a file of what waits: what a batch rewrites for one message that ends."""

SMALL_FILES_MAX = 32
"""So many files of less than half of that are merged with the next batch."""

FILES_GATHERED_MAX = 4
"""The rows of so many full files are in memory at once, however many are written again."""

TURN = Lock()
"""Held by who writes files of what waits again: of two at once one would fail."""

_DUE = "due"
_ENDED = "ended_date"
_IN_FILES = pa.schema([field for field in SCHEDULED.schema if field.name != _ENDED])


class ScheduledWriter(DeltaWriter):
    """As `DeltaWriter`; what it appends are files of changes, `SCHEDULED.of_log` of the log, which it removes."""

    def __init__(
        self,
        session: SparkSession,
        path: Path,
        driver: Driver,
        logs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(session, path, driver, logs)
        self._waiting: list[DeltaFile] = []
        self._waiting_version = -1

    def append(self, written: Sequence[str], ends: Mapping[str, int], epoch: int) -> None:
        with TURN:
            self._append(read_changes(written), ends, epoch)
        for path in written:
            Path(path).unlink()

    def _append(self, changed: pa.Table | None, ends: Mapping[str, int], epoch: int) -> None:
        transaction = self._begin(ends)
        snapshot = transaction.snapshot()
        files = self._files(snapshot)
        removed = [] if changed is None else _concerned(files, ended_dues_ms(changed))
        added: list[DeltaFile] = []
        actions = self._no_actions()
        for text in [] if changed is None else self._merge(removed, changed):
            action = self.action(text)
            actions = actions.appended(action)
            file = file_of(action, text, _DUE, _ENDED)
            added += [] if file is None else [file]
        for file in removed:
            actions = actions.appended(file.action.remove())
        version = self._commit(transaction, actions, ends, epoch)
        if version == snapshot.version() + 1:
            self._waiting = [file for file in files if file not in removed] + added
            self._waiting_version = version

    def _merge(self, files: Sequence[DeltaFile], changed: pa.Table) -> Iterator[str]:
        """Writes what becomes of the rows of `files`, and what begins; Delta's actions that add the files."""
        ends = Ends(changed)
        gathered = [ends.give_to(begun(changed, SCHEDULED.schema))]
        for file in sorted(files, key=lambda each: each.least_ms):
            gathered.append(ends.give_to(read_file(self._path / file.path, SCHEDULED.schema)))
            if sum(rows.num_rows for rows in gathered) >= FILES_GATHERED_MAX * FILE_ROWS:
                yield from self._write(pa.concat_tables(gathered))
                gathered = []
        yield from self._write(pa.concat_tables(gathered or [SCHEDULED.schema.empty_table()]))

    def _write(self, rows: pa.Table) -> Iterator[str]:
        """In the order of when they were due, each day of ends apart."""
        for day in rows[_ENDED].unique():
            of_day = pc.equal(rows[_ENDED], day) if day.is_valid else pc.is_null(rows[_ENDED])
            chosen = rows.filter(of_day).drop_columns([_ENDED]).sort_by(_DUE)
            partition = (_ENDED, day.as_py().isoformat() if day.is_valid else None)
            for begin in range(0, chosen.num_rows, FILE_ROWS):
                with NewFile(self._path, _IN_FILES, SCHEDULED.statistics, partition) as file:
                    for batch in chosen.slice(begin, FILE_ROWS).to_batches():
                        file.write(batch)
                    yield file.close()

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
