"""How far the lake holds a broker's log for certain: what the log may let go of, and damage in it may be served
from. Asked of the lake itself, and of nobody who says so."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LakeUnreadable
from lakemq.objects.path import is_object
from lakemq.storage.lake.delta_files import DeltaFiles, Version
from lakemq.storage.lake.delta_log import APPLICATION, entry_of
from lakemq.storage.lake.log_marks import logs_of
from lakemq.storage.lake.proof_mark import Proved, read_marks

OF_MESSAGES = ("messages", "consume_queue", "message_index")
"""What the gateway reads history from; all of them must be there."""


class Certain(NamedTuple):
    """Below `position` the lake holds all of the broker's log; `why` it is no more, when that is a fault."""

    position: int
    why: str | None = None


class CertainLake:
    """The lake in a folder, as far as it is one broker's. Each look takes a while: files are counted. For one
    thread at a time."""

    def __init__(self, lake: Path, broker: str) -> None:
        self._lake = lake.absolute()
        self._broker = broker
        self._seen: tuple[dict[str, Proved], Certain] | None = None

    def look(self, again: bool = True, log_id: str | None = None) -> Certain:
        """What is so now. Every table that was ever proved, and those of messages, must be there and be the
        one that was proved; its progress must be on disk (`prove`); each file of it must be there, with its
        length. `log_id`: which log the rows must be of; None: whichever. `again` False: what was seen before will
        do while nothing further was proved. Raises nothing.
        """
        try:
            marks = read_marks(self._lake)
            if not again and self._seen is not None and self._seen[0] == marks:
                return self._seen[1]
            found = self._look(marks, log_id)
        except (OSError, ValueError) as error:
            return Certain(0, f"the lake in {self._lake} can't be read: {error}")
        except LakeUnreadable as error:
            return Certain(0, error.detail)
        self._seen = (marks, found)
        return found

    def _look(self, marks: dict[str, Proved], log_id: str | None) -> Certain:
        if not self._lake.is_dir():
            return Certain(0, f"there is no lake in {self._lake} (lake.dir)")
        lacking = [name for name in OF_MESSAGES if name not in marks]
        if lacking:
            return Certain(0, f"nothing of table {lacking[0]} in {self._lake} is on disk for certain yet")
        application = APPLICATION + self._broker
        least: int | None = None
        for name, mark in marks.items():
            if name not in OF_MESSAGES and application not in mark.held:
                continue  # a table that is not of the log, or not of this one
            of_log = logs_of(mark.held).get(self._broker)
            if log_id is not None and (of_log is None or of_log.log_id != log_id):
                return Certain(0, f"the lake's table in {self._lake / name} is not of this log: lakemq lake adopt")
            position, why = self._of_table(name, mark, application)
            if why is not None:
                return Certain(0, why)
            least = position if least is None else min(least, position)
        return Certain(least or 0)

    def _of_table(self, name: str, mark: Proved, application: str) -> Certain:
        folder = self._lake / name
        if not mark.stands(entry_of(folder, mark.version)):
            return Certain(0, f"the lake's table in {folder} is not the one that was brought to disk")
        table = DeltaFiles(folder, self._broker)
        version = table.version(-1)
        if version is None:
            return Certain(0, f"the lake's table in {folder} is missing")
        missing = _first_missing(folder, version)
        if missing is not None:
            return Certain(0, f"the lake's file {missing} is missing, or has lost a part")
        return Certain(max(min(mark.held.get(application, 0), version.held), 0))


def _first_missing(folder: Path, version: Version) -> Path | None:
    if is_object(folder):  # one listing for all, and not a request for each
        there: dict[Path, int] = {path: path.stat().st_size for path in folder.rglob("*.parquet")}
        return next((path for path, size in version.sizes() if there.get(path) != size), None)
    return next((path for path, size in version.sizes() if not _has_size(path, size)), None)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
