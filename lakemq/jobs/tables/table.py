"""What a table of the lake is: its columns, how it is laid out, and what it takes from the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.tables.begun import clear_begun
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place, sql_place
from lakemq.storage.lake.delta_log import is_made

_LOG_RETENTION, _FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
PROPERTIES = {
    # Readers of Delta's first protocol can read the tables: no feature that they must know.
    "delta.enableDeletionVectors": "false",
    "delta.checkpointPolicy": "classic",
    # A checkpoint of the table's log costs a second; a start reads at most so many entries.
    "delta.checkpointInterval": "100",
    # A commit every few seconds: a month of them, the default, would be half a million files. It is as long as an
    # older version has its data files, and an hour, as `checkpoint-cleanup` goes by whole hours.
    _LOG_RETENTION: "interval 25 hours",
    _FILE_RETENTION: "interval 1 days",
}

ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""Spark's types as Arrow's."""


class Layout(NamedTuple):
    """Where a table is and how its files are laid out. `order_by`: the order of the rows in a merged file.
    `time_column`, which has statistics, says which files are older."""

    path: Path
    order_by: tuple[str, ...]
    time_column: str
    partition_by: str | None = None


@dataclass(frozen=True)
class LakeTable:
    """One table: `log_columns` are read from the log, `rows` makes the table's rows of them, and `of_log` the same
    without Spark.

    It is clustered, or else partitioned by one column. `statistics` are the columns by which files
    can be skipped; a body among them would only cost. `time_column`, one of these, says which files are older.
    """

    name: str
    columns: dict[str, str]
    statistics: tuple[str, ...]
    log_columns: tuple[str, ...]
    rows: Callable[[DataFrame], DataFrame]
    of_log: Callable[[pa.RecordBatch], pa.RecordBatch]
    cluster_by: tuple[str, ...] = ()
    partition_by: str | None = None
    time_column: str = "store_time"

    @property
    def order_by(self) -> tuple[str, ...]:
        """The order of the rows in a merged file."""
        return self.cluster_by or (self.time_column,)

    def path(self, lake: Path) -> Path:
        return lake.absolute() / self.name

    def layout(self, lake: Path) -> Layout:
        """Of the table in that lake."""
        return Layout(self.path(lake), self.order_by, self.time_column, self.partition_by)

    @property
    def schema(self) -> pa.Schema:
        """Its columns in Arrow."""
        return pa.schema([(name, ARROW[kind]) for name, kind in self.columns.items()])

    def create(self, session: SparkSession, lake: Path) -> None:
        """Makes the table where there is none; adds the columns that an older one lacks, and has its log kept as
        long as a new one's."""
        if is_made(self.path(lake)):
            table = DeltaTable(delta_place(self.path(lake)), storage_options=delta_options(lake))
            self._add_columns(session, lake, table)
            self._keep_log(session, lake, table)
            return
        clear_begun(session, self.path(lake))
        session.sql(self.definition(sql_place(self.path(lake))))

    def definition(self, name: str) -> str:
        """The statement that makes the table under that name where there is none."""
        properties = PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join(self.statistics)}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        return (
            f"CREATE TABLE IF NOT EXISTS {name} ({_definitions(self.columns)}) USING delta "
            f"{self._layout()} TBLPROPERTIES ({listed})"
        )

    def _layout(self) -> str:
        if self.partition_by is not None:
            return f"PARTITIONED BY ({self.partition_by})"
        return f"CLUSTER BY ({', '.join(self.cluster_by)})"

    def _keep_log(self, session: SparkSession, lake: Path, table: DeltaTable) -> None:
        # Of a statement Delta compares the two with each other, whatever the table has.
        wanted = {name: PROPERTIES[name] for name in (_LOG_RETENTION, _FILE_RETENTION)}
        if not wanted.items() <= table.metadata().configuration.items():
            properties = ", ".join(f"'{name}' = '{value}'" for name, value in wanted.items())
            session.sql(f"ALTER TABLE {sql_place(self.path(lake))} SET TBLPROPERTIES ({properties})")

    def _add_columns(self, session: SparkSession, lake: Path, table: DeltaTable) -> None:
        """An earlier version made the table: in the rows that are there, a new column is null."""
        present = {field.name for field in table.schema().fields}
        lacking = {name: kind for name, kind in self.columns.items() if name not in present}
        if lacking:
            session.sql(f"ALTER TABLE {sql_place(self.path(lake))} ADD COLUMNS ({_definitions(lacking)})")


def _definitions(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
