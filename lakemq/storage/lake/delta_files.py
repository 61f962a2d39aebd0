"""The data files of a Delta table, with what Delta's log says of their columns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute

from lakemq.model.errors import LakeUnreadable, SettingsError
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place
from lakemq.storage.lake.bounds import Between, Bounds, OneOf
from lakemq.storage.lake.delta_log import APPLICATION, FOLDER, is_made
from lakemq.storage.lake.log_marks import log_identifier

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

FRESH_S = 5.0
"""A version of the table that is older is looked at again before it is used."""

logger = logging.getLogger(__name__)


class DataFile(NamedTuple):
    """One Parquet file, and the least and greatest value of a column of it (None: not known)."""

    path: Path
    least: Any
    most: Any


class Version(NamedTuple):
    """One version of the table: its files, and the position below which it holds all of the broker's
    messages that were not deleted from it."""

    number: int
    held: int
    actions: pa.Table
    folder: Path

    def files(self, bounds: Bounds, by: str) -> list[DataFile]:
        """The files that may hold rows within the bounds, in the order of the least value of the
        column `by`, which has statistics."""
        table = self.actions
        for name, bound in bounds.items():
            table = _within(table, name, bound)
        names = table.schema.names
        columns = [table.column("path").to_pylist()]
        for side in ("min", "max"):
            column = f"{side}.{by}"
            columns.append(table.column(column).to_pylist() if column in names else [None] * table.num_rows)
        bound = bounds.get(by)
        found = [
            DataFile(self.folder / unquote(path), least, most)
            for path, least, most in zip(*columns, strict=True)
            if bound is None or bound.overlaps(least, most)
        ]
        return sorted(found, key=lambda file: (file.least is not None, file.least))

    def sizes(self) -> Iterator[tuple[Path, int]]:
        """All files of the version, and how many bytes each has."""
        paths, sizes = self.actions.column("path").to_pylist(), self.actions.column("size_bytes").to_pylist()
        for path, size in zip(paths, sizes, strict=True):
            yield self.folder / unquote(path), size


class DeltaFiles:
    """The files of the Delta table in a folder, for one broker's messages. Safe from any thread."""

    def __init__(self, folder: Path, broker: str, log_id: Callable[[], str] | None = None) -> None:
        """`log_id`: of a table that is of another log of the broker nothing is held; None: of whichever."""
        self._broker, self._log_id = broker, log_id
        self.folder = folder.absolute()
        self._application = APPLICATION + broker
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._version: Version | None = None
        self._entry: tuple[int, ...] | None = None
        self._looked_s = 0.0

    def version(self, held: int) -> Version | None:
        """A version that holds everything below position `held`, not much older than the last one;
        None: there is none. Raises `LakeUnreadable`."""
        with self._lock:
            version = self._version
            if version is None or version.held < held or time.monotonic() - self._looked_s > FRESH_S:
                version = self._version = self._look()
                self._looked_s = time.monotonic()
            return version if version is not None and version.held >= held else None

    def forget(self) -> None:
        """Open the table anew next time: what was known of it is wrong."""
        with self._lock:
            self._table = self._version = None

    def _look(self) -> Version | None:
        # Only a gateway whose log has let go of something reads the lake: others never load this.
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            known, table = self._version, self._table
            if table is None or known is None or _identity(self.folder, known.number) != self._entry:
                # Also where the table was put back and went on otherwise: nothing known of it is so.
                known, table = None, DeltaTable(delta_place(self.folder), storage_options=delta_options(self.folder))
            else:
                table.update_incremental()
            self._table = table
            number = table.version()
            if known is not None and known.number == number:
                return known
            self._entry = _identity(self.folder, number)
            return self._read(table, number)
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            self._table = None
            # Asked only here: in a bucket each question is a request, and most looks find the table.
            if isinstance(error, TableNotFoundError) and not self._is_made():
                return None
            raise LakeUnreadable(f"the lake's table in {self.folder} can't be read: {error}") from None
        except SettingsError as error:
            raise LakeUnreadable(error.detail) from None

    def _is_made(self) -> bool:
        try:
            return is_made(self.folder)
        except OSError as error:
            raise LakeUnreadable(f"the lake's table in {self.folder} can't be looked at: {error}") from None

    def _read(self, table: DeltaTable, number: int) -> Version:
        reader = table.protocol().min_reader_version
        if reader > 1:
            raise LakeUnreadable(f"the lake's table in {self.folder} needs a reader of version {reader}, not 1")
        actions = pa.table(table.get_add_actions(flatten=True))
        for path in actions.column("path").to_pylist():
            if urlparse(path).scheme or path.startswith("/"):
                raise LakeUnreadable(f"the lake's table in {self.folder} has a file elsewhere: {path}")
        held = table.transaction_version(self._application)
        return Version(number, -1 if held is None or not self._is_of_log(table) else held, actions, self.folder)

    def _is_of_log(self, table: DeltaTable) -> bool:
        if self._log_id is None:
            return True
        number = table.transaction_version(log_identifier(self._broker, self._log_id()))
        return number is not None and number > 0


def _identity(folder: Path, number: int) -> tuple[int, ...] | None:
    """Which file the entry of that version is: another one may come to bear the number (`heal`)."""
    try:
        found = (folder / FOLDER / f"{number:020}.json").stat()
    except FileNotFoundError:
        return None  # a checkpoint holds it
    return found.st_ino, found.st_size, found.st_mtime_ns


def _within(actions: pa.Table, name: str, bound: Between | OneOf) -> pa.Table:
    """The files that may have such values in that column, by its statistics where there are some."""
    for side, limit, compare in (("min", bound.high, pc.less_equal), ("max", bound.low, pc.greater_equal)):
        column = f"{side}.{name}"
        if limit is not None and column in actions.schema.names:
            actions = actions.filter(pc.fill_null(compare(actions.column(column), limit), True))
    return actions
