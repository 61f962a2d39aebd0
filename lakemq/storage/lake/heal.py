"""Puts a lake back to what a crash or a power cut has left whole, before anybody writes to it.

What is proved (`proof_mark`) is on disk. Of each commit since, the entry, what it adds and what stands beside it
are read whole. From the first that isn't sound on, the table's entries are set aside: the table is what it was
before, its progress too, so the lake query writes the rows again from the log, which lets go only of what is
proved. Nothing is put back by a commit (as RESTORE does): Delta would keep the progress of what it undoes.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lakemq.model.errors import LakeDamaged
from lakemq.model.lake_repair import Found, Source, Undo, lost_by_undoing, source_of, what_to_undo
from lakemq.objects.path import is_object
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import (
    FOLDER,
    LAST_CHECKPOINT,
    Entry,
    TornEntry,
    beside_entries,
    entries_of,
    is_progress,
    last_checkpoint,
    read_entry,
    tables_of,
)
from lakemq.storage.lake.intact import drop_torn_sidecar, fault_of, sidecar_of
from lakemq.storage.lake.progress import read_identifiers
from lakemq.storage.lake.proof_mark import FAILED, Proved, read_marks, write_marks
from lakemq.storage.lake.proof_mark import FOLDER as OWN

logger = logging.getLogger(__name__)

SET_ASIDE = "set-aside"
"""In our folder of the lake: what was taken out of tables' logs."""


class MustBeAlone(Exception):
    """Something has to be set aside, which nobody may do while others commit."""


def heal(
    lake: Path, log_begins: Mapping[str, int] | None = None, files: Files | None = None, *, is_alone: bool = True
) -> list[str]:
    """Look at all that isn't proved, and set aside what isn't sound; what was done, in words, which are logged.

    For the process that holds the lake's lock, before it writes. `log_begins`: by application (a transaction
    identifier), where the log begins that can be asked. `is_alone`: no thread of the process commits meanwhile.
    Raises `LakeDamaged`, with the table as it was, where rows would go that no log holds any more; `MustBeAlone`, with
    that table as it was, where there is something to do and others commit; `OSError`.
    """
    if is_object(lake):
        return []  # an object is there whole, and lasting, or not at all
    files = files or Files()
    lake = lake.absolute()
    marks = read_marks(lake)
    aside = lake / OWN / SET_ASIDE / str(SystemClock().now_ms())
    said: list[str] = []
    for table in tables_of(lake):
        mark = _with_failed(marks.get(table.name), FAILED.get(table))
        if not is_alone and mark is not None and mark.distrusted is not None:
            raise MustBeAlone
        done = _Patient(table, mark, aside / table.name, files, is_alone).heal(log_begins or {})
        for line in done:  # at once: another table may raise
            logger.warning("%s", line)
        said += done
        if mark is not None and mark.distrusted is not None:
            marks[table.name] = replace(mark, distrusted=None)
            write_marks(lake, marks, files)
        FAILED.pop(table, None)
    return said


def drop_set_aside(lake: Path, before_ms: int) -> int:
    """Remove what was set aside before that time; how many times' it was. What is written again from the log needs none
    of it, and its statistics hold keys that may have been erased since."""
    if is_object(lake):
        return 0
    folders = [each for each in (lake / OWN / SET_ASIDE).glob("*") if each.name.isdigit()]
    old = [each for each in folders if int(each.name) < before_ms]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)  # what is left goes another time
    return sum(not folder.exists() for folder in old)


def _with_failed(mark: Proved | None, failed: int | None) -> Proved | None:
    """What is known of the table, with what could not be written down."""
    if failed is None:
        return mark
    mark = mark or Proved(-1, 0)
    return replace(mark, distrusted=failed if mark.distrusted is None else min(failed, mark.distrusted))


class _Patient:
    """One table."""

    def __init__(self, table: Path, mark: Proved | None, aside: Path, files: Files, is_alone: bool) -> None:
        self._table, self._aside, self._files = table, aside, files
        self._is_alone = is_alone
        self._entries = entries_of(table)
        self._stands = mark is not None and mark.stands(self._entries.get(mark.version))
        self._proved = mark.version if mark is not None and self._stands else -1
        fresh = mark is not None and (self._stands or mark.version < 0)
        self._distrusted = mark.distrusted if mark is not None and fresh else None

    def heal(self, log_begins: Mapping[str, int]) -> list[str]:
        said = self._heal_beside()
        undo = self._undo()
        if undo is None:
            return said + self._heal_orphans()
        source = source_of(self._table.name)
        if not self._stands and source is Source.LOGS:
            self._check_nothing_is_lost(undo, log_begins)
        self._set_aside([path for version, path in self._entries.items() if version >= undo.version])
        self._set_aside([each.path for each in beside_entries(self._table) if each.version >= undo.version])
        if undo.version == 0:  # it is made anew, which Delta only does where there is no log
            self._set_aside([self._table / FOLDER])
        line = f"table {self._table.name} is put back to version {undo.version - 1}: {undo.why}"
        again = "its last rows are lost" if source is Source.JOBS else "the rows are written again"
        return [*said, f"{line}. What its log had from there on is in {self._aside}; {again}"]

    def _undo(self) -> Undo | None:
        """What can't stay. A file that is away is none's fault once a later entry that stays removes it."""
        begin = self._begin()
        looked_at = {version: path for version, path in self._entries.items() if version > begin}
        if not looked_at and begin < 0:
            return Undo(0, "it has no entry")
        read = {version: self._read(version, path) for version, path in looked_at.items()}
        undo: Undo | None = None
        while True:
            gone: set[Path] = set()
            found: list[Found] = []
            for version in sorted(read, reverse=True):
                entry = read[version]
                found.append(Found(version, self._fault(entry, gone)))
                gone |= entry.removed if isinstance(entry, Entry) else set()
            again = what_to_undo(begin + 1, found[::-1], self._distrusted)
            if again is None:
                return undo
            undo = again
            read = {version: each for version, each in read.items() if version < again.version}

    def _begin(self) -> int:
        """The version after which entries are looked at: what is proved, or else the newest checkpoint, which
        has been read whole by now."""
        if self._stands:
            return self._proved
        checkpoints = [each.version for each in beside_entries(self._table) if each.is_checkpoint]
        return max([at for at in checkpoints if at in self._entries], default=-1)

    def _read(self, version: int, path: Path) -> Entry | str:
        """The entry, or what is wrong with it."""
        fault = fault_of(path)
        if fault is not None:
            return fault
        try:
            return read_entry(self._table, version, path)
        except TornEntry as error:
            return str(error)

    def _fault(self, entry: Entry | str, gone: set[Path]) -> str | None:
        if isinstance(entry, str):
            return entry
        for added in entry.added:
            if added.path in gone and not added.path.exists():
                continue
            fault = fault_of(added.path, added.size)
            if fault is not None:
                return fault
            drop_torn_sidecar(added.path)
        drop_torn_sidecar(self._entries[entry.version])
        return None

    def _heal_beside(self) -> list[str]:
        """Checkpoints and checksums that aren't proved and are torn: the entries say it all without them."""
        last = self._table / FOLDER / LAST_CHECKPOINT
        there = [each.path for each in beside_entries(self._table) if each.version > self._proved]
        checkpoint = last_checkpoint(self._table)  # it may have come after its version was proved
        there += [checkpoint] if checkpoint is not None and checkpoint not in there else []
        torn = [path for path in [*there, last] if path.name[0] != "." and path.exists() and fault_of(path)]
        for path in there:
            if path not in torn and path.name[0] != ".":
                drop_torn_sidecar(path)
        self._set_aside([each for path in torn for each in (path, sidecar_of(path))])
        return [f"{path.name} of table {self._table.name} is torn, and set aside" for path in torn]

    def _heal_orphans(self) -> list[str]:
        """What stands beside entries that never came: Spark would believe their checksums of the entries to come."""
        last = max(self._entries, default=-1)
        orphans = [each.path for each in beside_entries(self._table) if each.version > last]
        self._set_aside(orphans)
        what = f"version {last + 1} of table {self._table.name} never came to disk; what stood beside it is set aside"
        return [what] if orphans else []

    def _check_nothing_is_lost(self, undo: Undo, log_begins: Mapping[str, int]) -> None:
        left = read_identifiers(self._table, undo.version - 1)[1]
        later = [self._read(version, path) for version, path in self._entries.items() if version >= undo.version]
        held = {name for entry in later if isinstance(entry, Entry) for name in entry.held}
        undone: set[str | None] = {name for name in held if is_progress(name)}
        if undo.version not in self._entries or any(isinstance(entry, str) for entry in later):
            undone.add(None)
        lost = lost_by_undoing(left, undone, log_begins)
        if lost:
            raise LakeDamaged(
                f"table {self._table.name} is damaged from version {undo.version} on: {undo.why}. The logs of "
                f"{', '.join(lost)} no longer hold what would have to be written again, or can't be asked. Put the "
                "table back from a copy, or move its folder away to begin a new one"
            )

    def _set_aside(self, paths: list[Path]) -> None:
        """Move files out of the table's log, the last first, so that what is left has no gap; on disk on
        return. What comes to another name is no loss: nobody reads it."""
        there = [path for path in paths if path.exists()]
        if not there:
            return
        if not self._is_alone:
            raise MustBeAlone
        self._aside.mkdir(parents=True, exist_ok=True)
        for path in sorted(there, key=lambda each: each.name.lstrip("."), reverse=True):
            self._files.rename(path, self._aside / path.name)
        last = self._table / FOLDER / LAST_CHECKPOINT
        self._files.remove(last)  # it is a shortcut, and may name what is gone
        self._files.remove(sidecar_of(last))
        for folder in {path.parent for path in there}:
            self._files.sync_dir(folder)
