"""Parquet files of a table merged into one, its rows in order, without Spark and in bounded memory.

Files that are in order are read side by side, a few rows of each at a time: up to the least of the last rows that
were read, everything is there, and is put in order and written. Rows that are in no order are put in order first,
in parts that are set aside in files of their own where they don't fit in memory.

The file that comes of it is like Spark's: the same columns and row groups, checksums of pages, statistics of row
groups and pages. It is on disk on return, so that nobody has to wait for that later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from lakemq.objects.path import beside, opened
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.privacy import DIRECTORY_MODE
from lakemq.storage.lake.object_files import files_of
from lakemq.storage.lake.proof_mark import FOLDER
from lakemq.storage.lake.table_file import GROUP_BYTES, TableFile

logger = logging.getLogger(__name__)

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

MEMORY_BYTES = 64 * 1024 * 1024
"""About so much of all inputs together is decoded at a time; some copies of parts of it are made."""
BATCH_ROWS_MAX = 16 * 1024
_READ_BUFFER_BYTES = 64 * 1024
_SCRATCH = "merging"
_IN_USE: set[Path] = set()
"""The parts of this process's merges that are under way."""
Key = tuple[tuple[bool, Any], ...]


class Abandoned(Exception):
    """The merge was told to stop; nothing is left of it."""


class Input(NamedTuple):
    """A file to be merged; `ordered`: its rows are in the order that is asked for."""

    path: Path
    ordered: bool


class Merged(NamedTuple):
    """The file that was made."""

    rows: int
    bytes: int


def merge_files(
    inputs: Sequence[Input],
    output: Path,
    columns: Sequence[str],
    order_by: Sequence[str],
    *,
    scratch: Path,
    stop: Callable[[], bool],
    files: Files | None = None,
) -> Merged:
    """Writes all rows of the inputs to `output`, which must not be there, ascending by `order_by`, nulls last.

    `columns` are the table's: one that no input has is left out, one that some lack is null there. `scratch`: a folder
    for parts, which are gone on return. `stop` is asked a few times a second. Raises `Abandoned`, `OSError`, and
    `pa.ArrowException` for an input that isn't sound; then `output` is not there.
    """
    files = files or files_of(output)
    try:
        with ExitStack() as opened:
            merging = _Merging(inputs, columns, tuple(order_by), scratch, stop, opened)
            rows = merging.write(output)
        descriptor = files.open_read(output)
        try:
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        files.sync_dir(output.parent)
        return Merged(rows, files.size_of(output))
    except BaseException:
        with suppress(OSError):  # where it can't be removed either, it has no name, and what failed is to be said
            files.remove(output)
        raise
    finally:
        pa.default_memory_pool().release_unused()  # the next merge may be long in coming


def scratch_of(lake: Path) -> Path:
    """The folder for parts of merges of the lake's tables that are under way."""
    return beside(lake).absolute() / FOLDER / _SCRATCH


def sweep_scratch(lake: Path) -> None:
    """Removes the parts of merges that were killed: messages are in them. For who has just taken the lake's lock, as
    nobody else merges then. What can't be removed is logged."""
    try:
        remove_left_parts(lake)
    except OSError as error:
        logger.warning("can't delete what a merge of %s has left: %s", lake, error)


def remove_left_parts(lake: Path) -> int:
    """Removes the parts that no merge under way has, and says how many. For who holds the lake's lock: merges of other
    processes were killed. Raises `OSError` for what can't be removed, with the others removed."""
    removed, failure = 0, None
    for file in list(scratch_of(lake).glob("*.parquet")):  # what is listed was in use before it was there
        if file in _IN_USE:
            continue
        try:
            file.unlink()
            removed += 1
        except FileNotFoundError:
            continue  # its merge has ended since
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure
    return removed


class _Merging:
    """One merge, within the life of the files that it has opened."""

    def __init__(
        self,
        inputs: Sequence[Input],
        columns: Sequence[str],
        order_by: tuple[str, ...],
        scratch: Path,
        stop: Callable[[], bool],
        opened: ExitStack,
    ) -> None:
        self._order_by, self._scratch, self._stop, self._opened = order_by, scratch, stop, opened
        self._files = [(each, opened.enter_context(_open(each.path))) for each in inputs]
        self._schema = _common([file.schema_arrow for _, file in self._files], columns)
        ordered = sum(each.ordered for each in inputs)
        self._share = MEMORY_BYTES // 2 // (ordered + 1)

    def write(self, output: Path) -> int:
        """How many rows there are."""
        sources = [
            _Source(self._batches(file, self._share), self._order_by) for each, file in self._files if each.ordered
        ]
        sources += self._put_in_order([file for each, file in self._files if not each.ordered])
        writer = TableFile(output, self._schema, lasting=True)
        try:
            for part in _side_by_side(sources, self._order_by):
                self._check()
                writer.add(part)
            return writer.finish()
        except BaseException:
            writer.abandon()
            raise

    def _put_in_order(self, unordered: list[pq.ParquetFile]) -> list[_Source]:
        """The rows of files that are in no order, in order."""
        parts = self._parts(unordered)
        first = next(parts, None)
        if first is None:
            return []
        second = next(parts, None)
        if second is None:
            return [_Source(iter(_slices(first)), self._order_by)]
        aside = [self._set_aside(part) for part in (first, second)]
        first = second = None  # they are on disk, and take much memory
        aside += [self._set_aside(part) for part in parts]
        share = MEMORY_BYTES // 2 // len(aside)
        return [_Source(self._batches(file, share), self._order_by) for file in aside]

    def _parts(self, unordered: list[pq.ParquetFile]) -> Iterator[pa.RecordBatch]:
        """Their rows in parts of about `MEMORY_BYTES`, each in order."""
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for file in unordered:
            for batch in self._batches(file, MEMORY_BYTES // 8):
                held.append(batch)
                held_bytes += batch.nbytes
                if held_bytes >= MEMORY_BYTES:
                    yield _sorted(held, self._order_by)
                    held, held_bytes = [], 0
        if held:
            yield _sorted(held, self._order_by)

    def _set_aside(self, part: pa.RecordBatch) -> pq.ParquetFile:
        self._check()
        self._scratch.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        path = self._scratch / f"{uuid4().hex}.parquet"
        _IN_USE.add(path)
        self._opened.callback(_IN_USE.discard, path)
        self._opened.callback(path.unlink, missing_ok=True)
        rows = max(1, part.num_rows * GROUP_BYTES // max(part.nbytes, 1))
        pq.write_table(
            pa.Table.from_batches([part]), path, rows, compression="lz4", use_dictionary=False, store_schema=False
        )
        return self._opened.enter_context(_open(path))

    def _batches(self, file: pq.ParquetFile, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """The file's rows with the common columns, about so many bytes at a time."""
        footer = file.metadata
        size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
        rows = min(max(batch_bytes * footer.num_rows // max(size, 1), 1), BATCH_ROWS_MAX)
        present = set(file.schema_arrow.names)
        columns = [name for name in self._schema.names if name in present]
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            self._check()
            if batch.num_rows:
                yield _conform(batch, self._schema)

    def _check(self) -> None:
        if self._stop():
            raise Abandoned


class _Source:
    """Batches that are in order; `batch` is the one that is being used up, None after the last."""

    def __init__(self, batches: Iterator[pa.RecordBatch], order_by: tuple[str, ...]) -> None:
        self._batches, self._order_by = batches, order_by
        self.batch: pa.RecordBatch | None = None
        self._keys: list[pa.Array] = []
        self.last: Key = ()
        self._use(next(batches, None))

    def take_up_to(self, key: Key) -> pa.RecordBatch:
        """Its next rows that don't come after `key`, as far as they have been read."""
        batch = self.batch
        assert batch is not None
        if self.last <= key:
            self._use(next(self._batches, None))
            return batch
        low, high = 0, batch.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) <= key:
                low = middle + 1
            else:
                high = middle
        self._use(batch.slice(low))
        return batch.slice(0, low)

    def _use(self, batch: pa.RecordBatch | None) -> None:
        self.batch = batch
        if batch is not None:
            self._keys = [batch.column(name) for name in self._order_by]
            self.last = self._key(batch.num_rows - 1)

    def _key(self, row: int) -> Key:
        return tuple(_comparable(column[row]) for column in self._keys)


def _side_by_side(sources: list[_Source], order_by: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """All rows of the sources in order."""
    while left := [source for source in sources if source.batch is not None]:
        key = min(source.last for source in left)
        parts = [part for source in left if (part := source.take_up_to(key)).num_rows]
        yield _sorted(parts, order_by) if len(parts) > 1 else parts[0]


def _sorted(batches: list[pa.RecordBatch], order_by: tuple[str, ...]) -> pa.RecordBatch:
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return batch.take(pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in order_by]))


def _slices(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(at, BATCH_ROWS_MAX) for at in range(0, batch.num_rows, BATCH_ROWS_MAX)]


def _comparable(scalar: Any) -> tuple[bool, Any]:
    """Nulls after all else. A time as the number that it is: Python has none after the year 9999."""
    if not scalar.is_valid:
        return True, 0
    return False, scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py()


def _open(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(
        opened(path),
        page_checksum_verification=True,
        # Else several row groups of each file would be in memory.
        pre_buffer=False,
        buffer_size=_READ_BUFFER_BYTES,
        # Spark's first form of a time: in ns it would hold none after 2262.
        coerce_int96_timestamp_unit="us",
    )


def _common(schemas: Sequence[pa.Schema], columns: Sequence[str]) -> pa.Schema:
    """The columns that some of the files have, in the table's order."""
    found: dict[str, list[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            found.setdefault(field.name, []).append(field.type)
    return pa.schema([(name, _united(found[name])) for name in columns if name in found])


def _united(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Of a column's types in files the table's, with all fields that a struct has in any of them: an older file lacks
    some. Spark's first form of a time doesn't say that it is UTC."""
    kind = kinds[0]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_struct(kind):
        found: dict[str, list[pa.DataType]] = {}
        for each in (field for struct in kinds for field in struct.fields):
            found.setdefault(each.name, []).append(each.type)
        return pa.struct([(name, _united(of)) for name, of in found.items()])
    if pa.types.is_list(kind):
        return pa.list_(_united([each.value_type for each in kinds]))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _united([each.item_type for each in kinds]))
    return kind


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = set(batch.schema.names)
    columns: list[Any] = []
    for field in schema:
        column = batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
