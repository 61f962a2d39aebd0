"""A range of the log as a DataFrame, for a query that knows its positions.

The rows are those of `format("lakemq")`; without that data source's planning, which starts a
process for every read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.source.columns import schema_of
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition

ReadPartition = Callable[[LogPartition, SourceOptions, list[str]], Iterator[pa.RecordBatch]]


def read_range(
    session: SparkSession,
    partitions: Sequence[LogPartition],
    columns: Sequence[str],
    options: SourceOptions,
    read: ReadPartition = read_partition,
) -> DataFrame:
    """The rows of `partitions`, each read by a task of its own."""
    names = list(columns)
    tasks = list(partitions)

    def read_some(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read(tasks[index], options, names)

    indexes = session.range(0, len(tasks), 1, len(tasks))
    return indexes.mapInArrow(read_some, schema_of(names))
