"""Brings to disk what commits have added to a table: every data file and its folders, then the entries of the table's
log and what stands beside them, then that folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import (
    FOLDER,
    LAST_CHECKPOINT,
    Entry,
    beside_entries,
    beside_entry,
    entry_of,
    last_checkpoint,
)
from lakemq.storage.lake.intact import sidecar_of


def bring_to_disk(lake: Path, table: Path, read: Sequence[Entry], files: Files, is_known: bool) -> None:
    """What these entries have added, and then they. `is_known`: what the table had before them is on disk; else all of
    it is brought there. Raises `OSError`."""
    if is_known:
        _sync_files([added.path for entry in read for added in entry.added], files)
    else:
        _sync_all(table, files)
    _sync_log(lake, table, read, files, is_known)


def _sync_log(lake: Path, table: Path, read: Sequence[Entry], files: Files, is_known: bool) -> None:
    folders = {folder for entry in read for added in entry.added for folder in _folders(lake, added.path)}
    for folder in sorted(folders | {table, lake}, key=lambda each: len(each.parts), reverse=True):
        with suppress(FileNotFoundError):
            files.sync_dir(folder)
    log = [*(entry_of(table, entry.version) for entry in read), table / FOLDER / LAST_CHECKPOINT]
    if is_known:
        log += [path for entry in read for path in beside_entry(table, entry.version)]
    else:
        log += [each.path for each in beside_entries(table)]
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
