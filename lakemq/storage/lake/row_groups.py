"""Row groups of Parquet files: those that may hold what is wanted, decoded, the last ones kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from lakemq.model.errors import LakeUnreadable
from lakemq.objects.path import opened
from lakemq.storage.lake.bounds import Bounds, choose

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

FOOTERS_MAX = 256
ROWS_AT_ONCE = 4_096
BYTES_AT_ONCE = 16 * 1024 * 1024
"""Of a row group that is too large to keep, about so much is in memory at a time."""
KEPT_BYTES_MAX = 1024**3

Key = tuple[Path, int, str]


class FileGone(Exception):
    """The file is not there: another version of the table took its place, and it was vacuumed."""


class TooMuch(Exception):
    """The rows take more memory than they may."""


class RowGroups:
    """Reads files of one schema. Keeps at most `cache_bytes` of decoded row groups, the last used;
    never decodes more than about that at once. Safe from any thread: a file that is there never
    changes."""

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, pa.RecordBatch] = OrderedDict()
        self.kept_bytes = 0
        self._footers: OrderedDict[Path, pq.FileMetaData] = OrderedDict()

    def rows(
        self, path: Path, schema: pa.Schema, bounds: Bounds, bytes_max: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The file's rows within the bounds, with the columns of `schema`; one that the file lacks is
        null. Raises `FileGone`, `LakeUnreadable`, and `TooMuch` rather than make more than about
        `bytes_max` bytes of them."""
        made = 0
        try:
            with _Opened(path, self._footer(path)) as opened:
                for number in opened.groups(bounds):
                    for batch in self._group(opened, number, schema):
                        chosen = choose(batch, bounds)
                        made += 0 if bytes_max is None else plain_bytes(chosen, schema)
                        if bytes_max is not None and made > bytes_max:
                            raise TooMuch
                        if chosen.num_rows:
                            yield conform(chosen, schema)
        except FileNotFoundError:
            raise FileGone(path) from None
        except (OSError, pa.ArrowException) as error:
            raise LakeUnreadable(f"the lake's file {path} can't be read: {error}") from None

    def forget(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._kept.clear()
            self._footers.clear()
            self.kept_bytes = 0

    def _footer(self, path: Path) -> pq.FileMetaData:
        with self._lock:
            footer = self._footers.pop(path, None)
        if footer is None:
            footer = pq.read_metadata(opened(path))
        with self._lock:
            self._footers[path] = footer
            while len(self._footers) > FOOTERS_MAX:
                self._footers.popitem(last=False)
        return footer

    def _group(self, opened: _Opened, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        key = opened.path, number, ",".join(schema.names)
        with self._lock:
            batch = self._kept.get(key)
            if batch is not None:
                self._kept.move_to_end(key)
        if batch is not None:
            yield batch
        elif opened.decoded_bytes(number, schema) > min(self._cache_bytes // 4, KEPT_BYTES_MAX):
            yield from opened.read_parts(number, schema)
        else:
            batch = opened.read(number, schema)
            self._keep(key, batch)
            yield batch

    def _keep(self, key: Key, batch: pa.RecordBatch) -> None:
        with self._lock:
            if key in self._kept or batch.nbytes > self._cache_bytes:
                return
            self._kept[key] = batch
            self.kept_bytes += batch.nbytes
            while self.kept_bytes > self._cache_bytes:
                _, oldest = self._kept.popitem(last=False)
                self.kept_bytes -= oldest.nbytes


class _Opened:
    """A file that is read now; it is opened when a row group of it is decoded.

    What stands in a file's dictionaries stays in dictionaries here: a large body that a file holds once,
    and names for a thousand messages, would else be there a thousand times.
    """

    def __init__(self, path: Path, footer: pq.FileMetaData) -> None:
        self.path = path
        self._footer = footer
        self._columns = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        self._file: pq.ParquetFile | None = None

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close(force=True)

    def groups(self, bounds: Bounds) -> list[int]:
        """The row groups that may hold rows within the bounds."""
        return [number for number in range(self._footer.num_row_groups) if self._may_hold(number, bounds)]

    def _may_hold(self, number: int, bounds: Bounds) -> bool:
        group = self._footer.row_group(number)
        for name, bound in bounds.items():
            column = self._columns.get(name)
            statistics = None if column is None else group.column(column).statistics
            if statistics is None or not statistics.has_min_max:
                continue
            if not bound.overlaps(statistics.min, statistics.max):
                return False
        return True

    def decoded_bytes(self, number: int, schema: pa.Schema) -> int:
        """About how much memory the row group takes, in bytes."""
        group = self._footer.row_group(number)
        wanted = set(schema.names)
        return sum(
            group.column(at).total_uncompressed_size
            for path, at in self._columns.items()
            if path.partition(".")[0] in wanted
        )

    def read(self, number: int, schema: pa.Schema) -> pa.RecordBatch:
        """The whole row group as one batch, which is not near 2 GiB."""
        table = self._open().read_row_group(number, self._present(schema), use_threads=False).combine_chunks()
        batches = table.to_batches()
        if len(batches) > 1:
            raise pa.ArrowInvalid(f"row group {number} is larger than its footer says")
        return _normal(batches[0], schema) if batches else empty(schema)

    def read_parts(self, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The row group, some rows at a time."""
        row_bytes = self.decoded_bytes(number, schema) // max(self._footer.row_group(number).num_rows, 1)
        rows = min(max(BYTES_AT_ONCE // max(row_bytes, 1), 1), ROWS_AT_ONCE)
        for batch in self._open().iter_batches(rows, [number], self._present(schema), use_threads=False):
            yield _normal(batch, schema)

    def _present(self, schema: pa.Schema) -> list[str]:
        present = {path.partition(".")[0] for path in self._columns}
        return [name for name in schema.names if name in present]

    def _in_dictionaries(self) -> list[str]:
        """The columns of bytes that the file has dictionaries of, nested ones too."""
        groups = [self._footer.row_group(number) for number in range(self._footer.num_row_groups)]
        return [
            path
            for path, at in self._columns.items()
            if self._footer.schema.column(at).physical_type == "BYTE_ARRAY"
            and any(group.column(at).has_dictionary_page for group in groups)
        ]

    def _open(self) -> pq.ParquetFile:
        if self._file is None:
            self._file = pq.ParquetFile(
                opened(self.path),
                metadata=self._footer,
                read_dictionary=self._in_dictionaries(),
                page_checksum_verification=True,
                # Spark's first form of a time: in ns it would hold none after 2262.
                coerce_int96_timestamp_unit="us",
            )
        return self._file


def _normal(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema` in its order, times as there; the others as the file has them."""
    names = set(batch.schema.names)
    columns: list[Any] = []
    for field in schema:
        column = batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        if pa.types.is_timestamp(column.type) and column.type != field.type:
            column = (
                column.cast(pa.timestamp("us")).cast(field.type) if column.type.tz is None else column.cast(field.type)
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the types of `schema`; raises `ArrowException` when that can't be."""
    columns: list[Any] = []
    for field, column in zip(schema, batch.columns, strict=True):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_bytes(batch: pa.RecordBatch, schema: pa.Schema) -> int:
    """About how much memory the batch takes with the types of `schema`."""
    return sum(
        column.nbytes if pa.types.is_dictionary(field.type) else _plain_bytes(column)
        for field, column in zip(schema, batch.columns, strict=True)
    )


def _plain_bytes(column: pa.Array) -> int:
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        return (pc.sum(lengths.cast(pa.int64())).as_py() or 0) + column.indices.nbytes
    if pa.types.is_list(kind):
        return _plain_bytes(column.flatten())
    if pa.types.is_map(kind):
        return sum(_plain_bytes(part) for part in (column.keys, column.items))
    return column.nbytes
