"""A topic's messages out of files of `messages`, decoded and written to a file of the topic's own table: what one task
of Spark does. A few rows are in memory at a time, however many there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.table import ARROW
from lakemq.jobs.tables.topic_rows import decoding, in_arrow
from lakemq.jobs.tables.topic_table import STATISTICS
from lakemq.model.avro_decode import DEFAULTS_CHARACTERS_MAX
from lakemq.model.row_room import room_of
from lakemq.model.schema import SchemaVersion, parse_schema
from lakemq.model.schema_kinds import AVRO
from lakemq.model.topic_columns import SOURCES, TYPES
from lakemq.model.topic_step import Range
from lakemq.objects.path import opened
from lakemq.storage.lake.object_files import files_of

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS_MAX = 8 * 1024
_DECODED_BYTES = 64 * 1024 * 1024
HERE_BYTES_MAX = 256 * 1024
"""Files of so many bytes together are read in this process: to plan tasks takes longer."""
_RESULT = pa.schema([("topic", pa.string()), ("action", pa.string()), ("error", pa.string())])
_KINDS = {name: ARROW[kind] for name, kind in TYPES.items()}
_NAMES = ("topic", *SOURCES.values())


class TopicFile(NamedTuple):
    """What is to be written. `files`: of `messages`, with all that the ranges have of the topic; `size`: their bytes.
    `versions`: of the topic's schema. `table`: the folder of the topic's own table."""

    topic: str
    versions: tuple[SchemaVersion, ...]
    ranges: tuple[Range, ...]
    files: tuple[Path, ...]
    size: int
    table: Path

    def write(self) -> str | None:
        """Delta's action that adds the file; None: there are no such messages. Raises `OSError`, and
        `pa.ArrowException` for a file that isn't sound."""
        output: NewFile | None = None
        schema = self._schema()
        try:
            for path in self.files:
                for batch in self._batches(path):
                    if output is None:
                        output = NewFile(self.table, schema, STATISTICS)
                    for part in self._parts(batch):
                        output.write(self._decoded(part, schema))
            return None if output is None else output.close()
        finally:
            if output is not None:
                output.__exit__(None, None, None)

    def _schema(self) -> pa.Schema:
        current = self.versions[-1]
        fields = in_arrow(parse_schema(current.type, current.text).columns)
        return pa.schema([*fields, *_KINDS.items()])

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts of which none takes much memory once it is decoded, but for one row that does so alone."""
        room, begin, taken = self._room(), 0, 0
        for at, body in enumerate(batch.column("_body").to_pylist()):
            size = room(body or b"")
            if at > begin and taken + size > _DECODED_BYTES:
                yield batch.slice(begin, at - begin)
                begin, taken = at, 0
            taken += size
        yield batch.slice(begin)

    def _room(self) -> Callable[[bytes], int]:
        """What a body takes in memory at most, about; with defaults that it is filled up with: each of its elements may
        get all those of the schema."""
        current = self.versions[-1]
        room = room_of(parse_schema(current.type, current.text).columns)
        if current.type != AVRO or len(self.versions) == 1:
            return room.bytes_at_most
        of_each = len(current.text)
        return lambda body: room.bytes_at_most(body) + min(len(body) * of_each, DEFAULTS_CHARACTERS_MAX)

    def _decoded(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        times = pc.cast(batch.column("_time"), pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        decoded = decoding(self.versions)(batch.column("_body").to_pylist(), times.to_pylist())
        number = pa.array([self.versions[-1].version] * batch.num_rows, pa.int32())
        # `flatten` gives a field null where its struct is; `field` wouldn't.
        fields, errors = decoded.flatten()
        return pa.RecordBatch.from_arrays([*fields.flatten(), *batch.columns, errors, number], schema=schema)

    def _batches(self, path: Path) -> Iterator[pa.RecordBatch]:
        """The topic's rows of the ranges, with the columns that begin with `_`."""
        with pq.ParquetFile(opened(path), pre_buffer=False, coerce_int96_timestamp_unit="us") as file:
            groups = [at for at in range(file.metadata.num_row_groups) if self._may_have(file.metadata.row_group(at))]
            size = sum(file.metadata.row_group(at).total_byte_size for at in groups)
            rows = sum(file.metadata.row_group(at).num_rows for at in groups)
            if not rows:
                return
            there = set(file.schema_arrow.names)
            names = [name for name in _NAMES if name in there]
            count = min(max(_BATCH_BYTES * rows // max(size, 1), 1), _BATCH_ROWS_MAX)
            for batch in file.iter_batches(count, groups, columns=names, use_threads=False):
                found = batch.filter(self._wanted(batch))
                if found.num_rows:
                    yield _renamed(found, there)

    def _wanted(self, batch: pa.RecordBatch) -> pa.Array:
        is_within = None
        for each in self.ranges:
            position = batch.column("position")
            part = pc.and_(pc.greater_equal(position, each.low), pc.less(position, each.high))
            part = pc.and_(part, pc.equal(batch.column("broker"), each.broker))
            is_within = part if is_within is None else pc.or_(is_within, part)
        return pc.and_(is_within, pc.equal(batch.column("topic"), self.topic))

    def _may_have(self, group: Any) -> bool:
        """Whether the row group's bounds leave room for such a row."""
        for at in range(group.num_columns):
            column = group.column(at)
            bounds = column.statistics
            if bounds is None or not bounds.has_min_max:
                continue
            if column.path_in_schema == "topic" and not bounds.min <= self.topic <= bounds.max:
                return False
            if column.path_in_schema == "position" and not any(
                bounds.min < each.high and bounds.max >= each.low for each in self.ranges
            ):
                return False
        return True


def _renamed(batch: pa.RecordBatch, there: set[str]) -> pa.RecordBatch:
    """With the columns' names and types as a topic's table has them; one that an older file lacks is null."""
    columns: list[Any] = []
    for name, source in SOURCES.items():
        kind = _KINDS[name]
        column = batch.column(source) if source in there else pa.nulls(batch.num_rows, kind)
        columns.append(column if column.type.equals(kind) else column.cast(kind))
    return pa.RecordBatch.from_arrays(columns, names=list(SOURCES))


class Written(NamedTuple):
    """Delta's action that adds a file; None: there was nothing to write. `error`: what it failed with."""

    action: str | None
    error: str | None = None

    def discard(self, table: Path) -> None:
        """Removes the file from the table's folder. Only where no commit may have named it."""
        if self.action is not None:
            files_of(table).remove(table / json.loads(self.action)["add"]["path"])


def write_files(session: SparkSession, files: Mapping[str, TopicFile]) -> dict[str, Written]:
    """Writes them all, by topic: in a task of Spark for each, or here where they are small. One that fails doesn't stop
    the others."""
    tasks = dict(files)
    if sum(each.size for each in tasks.values()) <= HERE_BYTES_MAX:
        return {topic: _written(each) for topic, each in tasks.items()}
    names = list(tasks)

    def write_some(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                row = {"topic": names[index]} | _written(tasks[names[index]])._asdict()
                yield pa.RecordBatch.from_pylist([row], schema=_RESULT)

    indexes = session.range(0, len(names), 1, len(names))
    found = indexes.mapInArrow(write_some, "topic string, action string, error string").toArrow()
    return {row["topic"]: Written(row["action"], row["error"]) for row in found.to_pylist()}


def _written(file: TopicFile) -> Written:
    try:
        return Written(file.write())
    except Exception as error:  # noqa: BLE001 (of any kind: the other topics' go on)
        return Written(None, f"{type(error).__name__}: {error}"[:500])
