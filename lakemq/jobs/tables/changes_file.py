"""A file of changes of `scheduled`, in Arrow's format: scratch between who reads the log and who merges them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa


class ChangesFile:
    """A new file in the folder; `with` closes it, whatever happens."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._path = folder / f"changes-{uuid.uuid4().hex}.arrow"
        self._writer = pa.ipc.new_file(self._path, schema)

    def __enter__(self) -> ChangesFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)

    def close(self) -> str:
        """Ends the file; its path."""
        self._writer.close()
        return str(self._path)


def read_changes(paths: Sequence[str]) -> pa.Table | None:
    """The changes in these files; None: there are none."""
    tables = [pa.ipc.open_file(pa.memory_map(path)).read_all() for path in paths]
    return pa.concat_tables(tables) if tables else None
