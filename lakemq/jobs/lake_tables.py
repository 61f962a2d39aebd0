"""The lake's tables: their columns, how they are laid out, and what each takes from the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.source_columns import COLUMNS

_PROPERTIES = {
    # Readers of Delta's first protocol can read the tables: no feature that they must know.
    "delta.enableDeletionVectors": "false",
    "delta.checkpointPolicy": "classic",
    # A checkpoint of the table's log costs a second; a start reads at most so many entries.
    "delta.checkpointInterval": "100",
    # A commit every few seconds: a month of them, the default, would be half a million files.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


@dataclass(frozen=True)
class LakeTable:
    """One table: `log_columns` are read from the log, `rows` makes the table's rows of them.

    `statistics` are the columns by which files can be skipped; a body among them would only cost.
    """

    name: str
    columns: dict[str, str]
    cluster_by: tuple[str, ...]
    statistics: tuple[str, ...]
    log_columns: tuple[str, ...]
    rows: Callable[[DataFrame], DataFrame]

    def path(self, lake: Path) -> Path:
        return lake.absolute() / self.name

    def create(self, session: SparkSession, lake: Path) -> None:
        """Makes the table where there is none; one that is there stays as it is."""
        if (self.path(lake) / "_delta_log").is_dir():
            return
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        properties = _PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join(self.statistics)}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        session.sql(
            f"CREATE TABLE IF NOT EXISTS delta.`{self.path(lake)}` ({columns}) USING delta "
            f"CLUSTER BY ({', '.join(self.cluster_by)}) TBLPROPERTIES ({listed})"
        )


def _consume_queue_rows(log: DataFrame) -> DataFrame:
    tag_hash = F.coalesce(F.crc32(F.col("tag").cast("binary")), F.lit(0))
    return log.withColumn("tag_hash", tag_hash).select(*CONSUME_QUEUE.columns)


def _message_index_rows(log: DataFrame) -> DataFrame:
    rows = log.withColumn("key", F.explode(F.array_distinct("keys")))
    return rows.select(*MESSAGE_INDEX.columns)


def _message_rows(log: DataFrame) -> DataFrame:
    return log.select(*MESSAGES.columns)


MESSAGES = LakeTable(
    name="messages",
    columns={name: kind.simpleString() for name, kind in COLUMNS.items()},
    cluster_by=("topic", "store_time"),
    statistics=("topic", "store_time", "store_date", "broker", "position"),
    log_columns=tuple(COLUMNS),
    rows=_message_rows,
)
"""Every field of a message; a query by topic and time reads few files."""

CONSUME_QUEUE = LakeTable(
    name="consume_queue",
    columns={
        "topic": "string",
        "queue_id": "int",
        "queue_offset": "bigint",
        "broker": "string",
        "position": "bigint",
        "size": "int",
        "tag_hash": "bigint",
        "store_time": "timestamp",
        "deliver_at": "timestamp",
    },
    cluster_by=("topic", "queue_id", "queue_offset"),
    statistics=("topic", "queue_id", "queue_offset", "broker", "position", "store_time"),
    log_columns=(
        "topic",
        "queue_id",
        "queue_offset",
        "broker",
        "position",
        "size",
        "tag",
        "store_time",
        "deliver_at",
    ),
    rows=_consume_queue_rows,
)
"""Where each queue's messages are in the log; `size` is the body's bytes, `tag_hash` its crc32."""

MESSAGE_INDEX = LakeTable(
    name="message_index",
    columns={
        "topic": "string",
        "key": "string",
        "broker": "string",
        "position": "bigint",
        "store_time": "timestamp",
    },
    cluster_by=("topic", "key"),
    statistics=("topic", "key", "broker", "position", "store_time"),
    log_columns=("topic", "keys", "broker", "position", "store_time"),
    rows=_message_index_rows,
)
"""A row for each key of each message; a look-up by key reads few files."""

TABLES = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)
