"""The lake's part of a backup: of each Delta table one version, its files and its log up to there."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lakemq.model.errors import LakeUnreadable
from lakemq.objects.table_place import delta_place
from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.log_part import ChangedMeanwhile
from lakemq.storage.backup.manifest import LAKE, Table
from lakemq.storage.lake.delta_log import FOLDER, LAST_CHECKPOINT, beside_entries, entries_of, tables_of
from lakemq.storage.lake.intact import sidecar_of
from lakemq.storage.lake.progress import read_progress


def copy_lake(lake: Path, copier: Copier) -> list[Table]:
    """Copy all tables of the lake, each as it is now. Raises `ChangedMeanwhile` when a file went meanwhile,
    `LakeUnreadable`, `OSError`."""
    return [_copy_table(table, copier) for table in tables_of(lake)]


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
        for path in paths:
            _copy(table, table / unquote(path), copier)
        for beside in beside_entries(table):
            if beside.version <= version:
                _copy(table, beside.path, copier)
        for at, path in entries_of(table).items():
            if at <= version:
                _copy(table, path, copier)
    except FileNotFoundError as error:
        raise ChangedMeanwhile(f"{error.filename} was removed") from None
    last = table / FOLDER / LAST_CHECKPOINT
    if last.exists() and not any(each.version > version for each in beside_entries(table)):
        _copy(table, last, copier)
    return Table(table.name, version, progress.held)


def _copy(table: Path, path: Path, copier: Copier) -> None:
    for each in (path, sidecar_of(path)):
        name = f"{LAKE}/{table.name}/{each.relative_to(table).as_posix()}"
        if name not in copier.copied and (each == path or each.exists()):
            copier.copy(each, name)
