"""A range of the log as a DataFrame, for a query that knows its positions.

The rows are those of `format("lakemq")`; without that data source's planning, which starts a
process for every read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.source.columns import schema_of
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition


def read_range(
    session: SparkSession,
    partitions: Sequence[LogPartition],
    columns: Sequence[str],
    options: SourceOptions,
) -> DataFrame:
    """The rows of `partitions`, each read by a task of its own."""
    names = list(columns)
    tasks = list(partitions)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_partition(tasks[index], options, names)

    indexes = session.range(0, len(tasks), 1, len(tasks))
    return indexes.mapInArrow(read, schema_of(names))
