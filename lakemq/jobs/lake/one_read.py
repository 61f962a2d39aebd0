"""One read of a range of the log, made to the files of all tables.

A page of the log is in memory at a time, and of each table a row group that is not full yet: some 100 MiB a task,
however large the range is. Nothing that is written here is part of a table before a commit adds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import SparkSession

from lakemq.jobs.source.columns import COLUMNS
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import MESSAGES_PER_PARTITION_MIN, LogPartition
from lakemq.jobs.tables.changes_file import ChangesFile
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import TABLES

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_READ = [*COLUMNS, "size"]
_RESULT = pa.schema([("name", pa.string()), ("content", pa.string())])

Begins = Mapping[str, Mapping[str, int]]
"""By table, the position of each broker's log from which on it lacks the rows."""


class Written(NamedTuple):
    """Something that was written for the table `name`: of `scheduled` the path of a file of changes, which are merged
    into it; of the others Delta's action that adds a file."""

    name: str
    content: str


class WriteRange(NamedTuple):
    """Where rows of the log go to. `scratch`: the folder for changes."""

    begins: Begins
    lake: Path
    scratch: Path
    options: SourceOptions

    def write(self, session: SparkSession, parts: Sequence[LogPartition]) -> list[Written]:
        """Reads the parts once, and writes what each table lacks of them: few messages here and now, as to plan a
        task takes longer, and many in a task of Spark for each part."""
        if sum(part.end - part.begin for part in parts) < 2 * MESSAGES_PER_PARTITION_MIN:
            return self.write_here(parts)
        write_here, tasks = self.write_here, list(parts)

        def write_some(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    rows = [each._asdict() for each in write_here([tasks[index]])]
                    yield pa.RecordBatch.from_pylist(rows, schema=_RESULT)

        indexes = session.range(0, len(tasks), 1, len(tasks))
        found = indexes.mapInArrow(write_some, "name string, content string").toArrow()
        return [Written(**row) for row in found.to_pylist()]

    def write_here(self, parts: Sequence[LogPartition]) -> list[Written]:
        """The same in this process."""
        with ExitStack() as opened:
            outputs: dict[str, _Output] = {}
            for part in parts:
                for page in read_partition(part, self.options, _READ):
                    for table in TABLES:
                        rows = table.of_log(self._lacking(page, table, part))
                        if rows.num_rows:
                            if table.name not in outputs:
                                outputs[table.name] = opened.enter_context(self._output(table, rows.schema))
                            outputs[table.name].write(rows)
            return [Written(name, output.close()) for name, output in outputs.items()]

    def _lacking(self, page: pa.RecordBatch, table: LakeTable, part: LogPartition) -> pa.RecordBatch:
        begin = self.begins[table.name][part.broker]
        return page if begin <= part.begin else page.filter(pc.greater_equal(page.column("position"), begin))

    def _output(self, table: LakeTable, schema: pa.Schema) -> _Output:
        if table is SCHEDULED:
            return ChangesFile(self.scratch, schema)
        return NewFile(table.path(self.lake), table.schema, table.statistics)


class _Output(Protocol):
    def __enter__(self) -> _Output: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, rows: pa.RecordBatch) -> None: ...

    def close(self) -> str: ...
