"""The lake's part of a backup: of each Delta table one version, its files and its log up to there."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lakemq.model.errors import LakeUnreadable
from lakemq.objects.table_place import delta_place
from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.log_part import ChangedMeanwhile
from lakemq.storage.backup.manifest import LAKE, Table
from lakemq.storage.lake.delta_log import FOLDER, LAST_CHECKPOINT, beside_entries, files_of_log, made_tables_of
from lakemq.storage.lake.intact import sidecar_of
from lakemq.storage.lake.progress import read_progress


def copy_lake(lake: Path, copier: Copier) -> list[Table]:
    """Copy all tables of the lake, each as it is now. Raises `ChangedMeanwhile` when a file went meanwhile,
    `LakeUnreadable`, `OSError`."""
    return [_copy_table(table, copier) for table in made_tables_of(lake)]


def _copy_table(table: Path, copier: Copier) -> Table:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        opened = DeltaTable(delta_place(table))
        version = opened.version()
        paths: list[Any] = pa.table(opened.get_add_actions(flatten=True)).column("path").to_pylist()
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        raise LakeUnreadable(f"the lake's table in {table} can't be read: {error}") from None
    progress = read_progress(table, version)
    try:
        _copy_log(table, version, copier)  # before the data, which may take hours: it is cleaned each hour
        for path in paths:
            _copy(table, table / unquote(path), copier)
    except FileNotFoundError as error:
        raise ChangedMeanwhile(f"{error.filename} was removed") from None
    last = table / FOLDER / LAST_CHECKPOINT
    if last.exists() and not any(each.version > version for each in beside_entries(table)) and _has(copier, last):
        _copy(table, last, copier)
    return Table(table.name, version, progress.held)


def _copy_log(table: Path, version: int, copier: Copier) -> None:
    """Copy the log up to that version: all that says what it is, and of the rest what is still there. Raises
    `ChangedMeanwhile`, `FileNotFoundError`."""
    entries, beside = files_of_log(table)
    begin = max((each.version + 1 for each in beside if each.is_checkpoint and each.version <= version), default=0)
    for each in beside:
        if each.version <= version:
            with nullcontext() if each.is_checkpoint and each.version + 1 == begin else suppress(FileNotFoundError):
                _copy(table, each.path, copier)
    for at in range(begin, version + 1):
        if at not in entries:
            raise ChangedMeanwhile(f"entry {at} of the log of {table} was removed")
        _copy(table, entries[at], copier)
    for at, path in entries.items():
        if at < begin:
            with suppress(FileNotFoundError):
                _copy(table, path, copier)


def _has(copier: Copier, last: Path) -> bool:
    """Whether the checkpoint that is named there is in the copy. It may be newer than that, and is only a hint."""
    try:
        version = int(json.loads(last.read_bytes())["version"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    begin = f"{LAKE}/{last.parent.parent.name}/{FOLDER}/{version:020d}.checkpoint"
    return any(name.startswith(begin) for name in copier.copied)


def _copy(table: Path, path: Path, copier: Copier) -> None:
    for each in (path, sidecar_of(path)):
        name = f"{LAKE}/{table.name}/{each.relative_to(table).as_posix()}"
        if name not in copier.copied and (each == path or each.exists()):
            copier.copy(each, name)
