"""A Parquet file of a Delta table, written without Spark, and what the commit that adds it says of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.storage.lake.table_file import TableFile

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_TEXT_MAX = 32
_LAST_CHARACTER = "\U0010ffff"


class NewFile:
    """One file of the table in `table`, which is there and no part of it until a commit adds it; with `partition`,
    whose value is part of its path, of a table that is partitioned. `with` closes it, whatever happens. Raises
    `FileNotFoundError` where the table's folder is gone."""

    def __init__(
        self, table: Path, schema: pa.Schema, statistics: Sequence[str], partition: tuple[str, str | None] | None = None
    ) -> None:
        """`schema`: of the file. `statistics`: the columns by which readers skip files."""
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        self._partition = partition
        if partition is not None:
            name = f"{partition[0]}={partition[1] or '__HIVE_DEFAULT_PARTITION__'}/{name}"
        self._table, self._name = table, name
        self._schema, self._statistics = schema, Statistics(schema, statistics)
        path = table / name
        if partition is not None:  # a table that was deleted stays so: Delta makes none anew in a folder with files
            path.parent.mkdir(exist_ok=True)
        self._file = TableFile(path, schema)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.abandon()

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows of just the file's columns."""
        table = pa.Table.from_batches([rows]).cast(self._schema)
        self._statistics.add(table)
        for batch in table.to_batches():
            self._file.add(batch)

    def close(self) -> str:
        """Ends the file; Delta's action that adds it, as JSON."""
        self._file.finish()
        written = (self._table / self._name).stat()
        partition = {} if self._partition is None else {self._partition[0]: self._partition[1]}
        action = {
            "path": self._name,
            "partitionValues": partition,
            "size": written.st_size,
            "modificationTime": written.st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(self._statistics.to_json()),
        }
        return json.dumps({"add": action})


class Statistics:
    """What Delta's readers skip files by: how many rows, and of some columns how many nulls and both bounds."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._names = [name for name in names if name in schema.names]
        self._rows = 0
        self._nulls = dict.fromkeys(self._names, 0)
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}

    def add(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        for name in self._names:
            column = rows[name]
            self._nulls[name] += column.null_count
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None:
                self._least[name] = min(self._least.get(name, bounds["min"]), bounds["min"])
                self._greatest[name] = max(self._greatest.get(name, bounds["max"]), bounds["max"])

    def to_json(self) -> dict[str, Any]:
        """As Delta's own writer has them: of texts the beginning, of times the milliseconds, which all of ours are."""
        return {
            "numRecords": self._rows,
            "minValues": {name: _lower(value) for name, value in self._least.items()},
            "maxValues": {name: _upper(value) for name, value in self._greatest.items()},
            "nullCount": self._nulls,
        }


def _lower(value: Any) -> Any:
    return value[:_TEXT_MAX] if isinstance(value, str) else _plain(value)


def _upper(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _TEXT_MAX:
        return _plain(value)
    end = _TEXT_MAX
    while end < len(value) and value[end] == _LAST_CHARACTER:
        end += 1
    return value if end == len(value) else value[:end] + _LAST_CHARACTER


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
