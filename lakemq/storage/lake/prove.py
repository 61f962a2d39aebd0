"""Brings to disk what commits have added to a lake, and writes down how far it is.

The order: every data file and its folders, then the entries of the table's log and what stands beside them, then
that folder, and only then the mark. So whatever the mark names is there after a power cut.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock

from lakemq.objects.path import is_object
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.bring_to_disk import bring_to_disk
from lakemq.storage.lake.delta_log import Entry, entries_of, entry_of, is_table, read_entry
from lakemq.storage.lake.object_files import files_of
from lakemq.storage.lake.progress import read_identifiers
from lakemq.storage.lake.proof_mark import FAILED, Proved, checksum_of, read_marks, write_marks

logger = logging.getLogger(__name__)

_TURN = Lock()
"""One thread at a time: a process may write a lake from several."""


def prove(lake: Path, files: Files | None = None) -> dict[str, Proved]:
    """Bring all tables to disk as they are now, and mark them; what is proved then, by table.

    For the process that holds the lake's lock, at a time when none of its tables is being put back. What was
    proved before is not looked at again. Raises `OSError` when something can't be brought to disk: that version
    and those after it are distrusted from then on, whatever the page cache shows of them, and so is every later call
    until `heal` has looked.
    """
    with _TURN:
        return _prove(lake.absolute(), files or files_of(lake))


def _prove(lake: Path, files: Files) -> dict[str, Proved]:
    before = read_marks(lake)
    marks = dict(before)
    there: set[str] = set()
    tables = _tables(lake, before)
    _check_trusted(tables, before)
    for table in tables:
        try:
            mark = _prove_table(lake, table, marks.get(table.name), files)
        except OSError:
            _distrust(lake, marks, table, files)
            raise
        if mark is not None:
            marks[table.name] = mark
            there.add(table.name)
    marks = {name: mark for name, mark in marks.items() if name in there}
    if marks != before:
        write_marks(lake, marks, files)
    return marks


def _check_trusted(tables: Collection[Path], marks: Mapping[str, Proved]) -> None:
    """A sync that is called again after one that failed may say that all is well: the pages are gone by then."""
    for table in tables:
        mark = marks.get(table.name)
        is_distrusted = table in FAILED or (mark is not None and mark.distrusted is not None)
        if is_distrusted and not is_object(table) and is_table(table):
            raise OSError(errno.EIO, "a sync has failed, and nobody has looked since what came to disk", str(table))


def _tables(lake: Path, known: Collection[str]) -> list[Path]:
    """The folders that may be tables, by name. In a bucket each look into one is a request: those that were tables
    are taken for it, and ours, which are none, aren't looked into."""
    try:
        found = sorted(lake.iterdir())
    except FileNotFoundError:
        return []
    return [path for path in found if path.name in known or (path.name[0] != "_" and is_table(path))]


def _prove_table(lake: Path, table: Path, mark: Proved | None, files: Files) -> Proved | None:
    """None: it is no table any more."""
    if mark is not None and not mark.stands(entry_of(table, mark.version)):
        mark = None
    if mark is not None:
        read, held = _entries_after(table, mark.version), mark.held
    elif is_table(table):
        read = [read_entry(table, version, path) for version, path in entries_of(table).items()]
        held = read_identifiers(table)[1]
    else:
        return None
    if not read:
        return mark or Proved(-1, 0)
    if not is_object(table):  # an object is lasting
        bring_to_disk(lake, table, read, files, mark is not None)
    for entry in read:
        held = held | entry.held
    last = read[-1].version
    return Proved(last, checksum_of(entry_of(table, last)), held)


def _entries_after(table: Path, version: int) -> list[Entry]:
    """Those that follow that version one after the other, without a listing."""
    found: list[Entry] = []
    while True:
        version += 1
        try:
            found.append(read_entry(table, version, entry_of(table, version)))
        except FileNotFoundError:
            return found


def _distrust(lake: Path, marks: dict[str, Proved], table: Path, files: Files) -> None:
    """Remember that a sync failed: the next start must not believe the page cache."""
    mark = marks.get(table.name, Proved(-1, 0))
    marks[table.name] = replace(mark, distrusted=mark.version + 1)
    FAILED[table] = mark.version + 1
    try:
        write_marks(lake, marks, files)
    except OSError as error:
        logger.error("can't record that a sync of %s has failed: %s", table, error)  # noqa: TRY400  it says all
