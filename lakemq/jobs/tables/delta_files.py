"""The files of a Delta table, as a commit takes and gives them: what is in them by their statistics."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakemq.objects.path import opened


@dataclass(frozen=True)
class DeltaFile:
    """One file of a table. `action` is Delta's own note of it, for a commit that removes it.

    `least_ms` and `greatest_ms` are bounds of the column of times that was asked for, in
    milliseconds since 1970.
    """

    action: Any = field(compare=False)
    path: str
    rows: int
    least_ms: int
    greatest_ms: int


def file_of(action: Any, text: str, column: str, partition_by: str) -> DeltaFile | None:
    """The file that an action adds, which is `text` in JSON, with the bounds of `column`; None: it is in a partition
    (whose value isn't null)."""
    content = json.loads(text)["add"]
    if content["partitionValues"].get(partition_by) is not None:
        return None
    stats = json.loads(content["stats"])
    low, high = stats["minValues"][column], stats["maxValues"][column]
    path = unquote(content["path"])
    return DeltaFile(action, path, stats["numRecords"], _milliseconds(low), _milliseconds(high))


def list_files(snapshot: Any, column: str, partition_by: str) -> list[DeltaFile]:
    """As `file_of`, of all files of the table's version."""
    unpartitioned = snapshot.allFiles().filter(f"partitionValues['{partition_by}'] IS NULL")
    found = [file_of(action, action.json(), column, partition_by) for action in unpartitioned.collectAsList()]
    return [file for file in found if file is not None]


def read_file(path: Path, schema: pa.Schema) -> pa.Table:
    """All rows of a file with the columns of `schema`; what the file lacks is null."""
    with pq.ParquetFile(opened(path), coerce_int96_timestamp_unit="us", page_checksum_verification=True) as file:
        rows = file.read()
    for name in schema.names:
        if name not in rows.schema.names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows.select(schema.names).cast(schema)


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp() * 1000 + 0.5)
