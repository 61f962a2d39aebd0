"""The lake's tables, and those of them that hold a row or more for every message."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.source.columns import COLUMNS
from lakemq.jobs.tables.message_rows import select, with_each_key, with_tag_hash
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.transactions import TRANSACTIONS


def _consume_queue_rows(log: DataFrame) -> DataFrame:
    tag_hash = F.coalesce(F.crc32(F.col("tag").cast("binary")), F.lit(0))
    return log.withColumn("tag_hash", tag_hash).select(*CONSUME_QUEUE.columns)


def _message_index_rows(log: DataFrame) -> DataFrame:
    rows = log.withColumn("key", F.explode(F.array_distinct("keys")))
    return rows.select(*MESSAGE_INDEX.columns)


def _message_rows(log: DataFrame) -> DataFrame:
    return log.select(*MESSAGES.columns)


def _messages(log: pa.RecordBatch) -> pa.RecordBatch:
    return select(log, list(MESSAGES.columns))


def _consume_queue(log: pa.RecordBatch) -> pa.RecordBatch:
    return select(with_tag_hash(select(log, CONSUME_QUEUE.log_columns)), list(CONSUME_QUEUE.columns))


def _message_index(log: pa.RecordBatch) -> pa.RecordBatch:
    return select(with_each_key(select(log, MESSAGE_INDEX.log_columns)), list(MESSAGE_INDEX.columns))


MESSAGES = LakeTable(
    name="messages",
    columns={name: kind.simpleString() for name, kind in COLUMNS.items()},
    cluster_by=("topic", "store_time"),
    statistics=("topic", "store_time", "store_date", "broker", "position"),
    log_columns=tuple(COLUMNS),
    rows=_message_rows,
    of_log=_messages,
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
    of_log=_consume_queue,
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
    of_log=_message_index,
)
"""A row for each key of each message; a look-up by key reads few files."""

TABLES = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX, SCHEDULED, TRANSACTIONS)
