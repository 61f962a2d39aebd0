"""Brings to disk what commits have added to a lake, and writes down how far it is.

The order: every data file and its folders, then the entries of the table's log and what stands beside them, then
that folder, and only then the mark. So whatever the mark names is there after a power cut.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

from lakemq.objects.path import is_object
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import (
    FOLDER,
    LAST_CHECKPOINT,
    Entry,
    beside_entries,
    beside_entry,
    entries_after,
    entries_of,
    entry_of,
    last_checkpoint,
    read_entry,
    tables_of,
)
from lakemq.storage.lake.intact import sidecar_of
from lakemq.storage.lake.object_files import files_of
from lakemq.storage.lake.progress import read_identifiers
from lakemq.storage.lake.proof_mark import Proved, checksum_of, read_marks, write_marks

logger = logging.getLogger(__name__)

_TURN = Lock()
"""One thread at a time: a process may write a lake from several."""


def prove(lake: Path, files: Files | None = None) -> dict[str, Proved]:
    """Bring all tables to disk as they are now, and mark them; what is proved then, by table.

    For the process that holds the lake's lock, at a time when none of its tables is being put back. What was
    proved before is not looked at again. Raises `OSError` when something can't be brought to disk: that version
    and those after it are distrusted from then on, whatever the page cache shows of them.
    """
    with _TURN:
        return _prove(lake.absolute(), files or files_of(lake))


def _prove(lake: Path, files: Files) -> dict[str, Proved]:
    before = read_marks(lake)
    marks = dict(before)
    for table in tables_of(lake):
        try:
            marks[table.name] = _prove_table(lake, table, marks.get(table.name), files)
        except OSError:
            _distrust(lake, marks, table, files)
            raise
    marks = {name: mark for name, mark in marks.items() if (lake / name / FOLDER).is_dir()}
    if marks != before:
        write_marks(lake, marks, files)
    return marks


def _prove_table(lake: Path, table: Path, mark: Proved | None, files: Files) -> Proved:
    if mark is not None and not mark.stands(entry_of(table, mark.version)):
        mark = None
    since = -1 if mark is None else mark.version
    entries = entries_of(table) if mark is None else entries_after(table, since)
    read = [read_entry(table, version, path) for version, path in entries.items()]
    if not read:
        return mark or Proved(-1, 0)
    if is_object(table):
        pass  # what is there is lasting
    elif mark is None:
        _sync_all(table, files)
    else:
        _sync_files([added.path for entry in read for added in entry.added], files)
    if not is_object(table):
        _sync_log(lake, table, mark, entries, read, files)
    held = read_identifiers(table)[1] if mark is None else mark.held
    for entry in read:
        held = held | entry.held
    last = read[-1].version
    return Proved(last, checksum_of(entries[last]), held)


def _sync_log(
    lake: Path, table: Path, mark: Proved | None, entries: dict[int, Path], read: list[Entry], files: Files
) -> None:
    folders = {folder for entry in read for added in entry.added for folder in _folders(lake, added.path)}
    for folder in sorted(folders | {table, lake}, key=lambda each: len(each.parts), reverse=True):
        with suppress(FileNotFoundError):
            files.sync_dir(folder)
    log = [*entries.values(), table / FOLDER / LAST_CHECKPOINT]
    if mark is None:
        log += [each.path for each in beside_entries(table)]
    else:
        log += [path for version in entries for path in beside_entry(table, version)]
    checkpoint = last_checkpoint(table)  # it may have come after its version was proved
    _sync_files(log if checkpoint is None else [*log, checkpoint], files)
    files.sync_dir(table / FOLDER)


def _sync_all(table: Path, files: Files) -> None:
    """Everything that the table has: of one without a mark nothing is known."""
    _sync_files([path for path in table.rglob("*") if path.is_file() and FOLDER not in path.parts], files)
    for folder in [path for path in table.rglob("*") if path.is_dir()]:
        files.sync_dir(folder)


def _sync_files(paths: Iterable[Path], files: Files) -> None:
    """The files and the sidecars of their checksums; what was removed since needs no disk."""
    for path in paths:
        for each in (path, sidecar_of(path)):
            try:
                descriptor = files.open_read(each)
            except FileNotFoundError:
                continue
            try:
                files.sync(descriptor)
            finally:
                files.close(descriptor)


def _folders(lake: Path, path: Path) -> list[Path]:
    """The folders that lead to a file of the lake."""
    return [folder for folder in path.parents if folder == lake or lake in folder.parents]


def _distrust(lake: Path, marks: dict[str, Proved], table: Path, files: Files) -> None:
    """Remember that a sync failed: the next start must not believe the page cache."""
    mark = marks.get(table.name, Proved(-1, 0))
    marks[table.name] = replace(mark, distrusted=mark.version + 1)
    try:
        write_marks(lake, marks, files)
    except OSError as error:
        logger.error("can't write down that a sync of %s has failed: %s", table, error)  # noqa: TRY400  it says all
