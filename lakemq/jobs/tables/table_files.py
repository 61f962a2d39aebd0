"""How many files a table has and how large they are, read from its log without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place


class TableFiles(NamedTuple):
    """The present version of a table. `small_files` of one that is partitioned: in its partitions."""

    version: int
    files: int
    bytes: int
    rows: int
    small_files: int


def look_at(path: Path, small_bytes: int, partition_by: str | None = None) -> TableFiles:
    """What the table at `path`, which must exist, consists of; files below `small_bytes` are small."""
    table = DeltaTable(delta_place(path), storage_options=delta_options(path))
    actions = pa.table(table.get_add_actions(flatten=True))
    sizes: list[int] = actions["size_bytes"].to_pylist()
    rows: list[int | None] = actions["num_records"].to_pylist() if "num_records" in actions.column_names else []
    days = actions[f"partition.{partition_by}"].to_pylist() if partition_by is not None and sizes else None
    small = sum(size < small_bytes and (days is None or days[at] is not None) for at, size in enumerate(sizes))
    return TableFiles(table.version(), len(sizes), sum(sizes), sum(count or 0 for count in rows), small)
