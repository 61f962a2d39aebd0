"""The table `scheduled`: one row for each scheduled message, from its schedule to its end.

A row is a message of the schedule topic, by broker and position. Its one effect, wherever that is
in the log, ends it. So a row changes once, and the table is partitioned by the day on which its
rows ended: what waits (no day) is all that is ever written again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.tables.scheduled_rows import DELIVERED, DROPPED, MOVED, RECALLED, WAITING, changes
from lakemq.jobs.tables.table import LakeTable
from lakemq.model.names import DECISION_TOPIC, SCHEDULE_TOPIC

_KEY = ("broker", "position")


def _is_scheduled() -> Column:
    return F.col("topic") == SCHEDULE_TOPIC


def _end_state() -> Column:
    """What the row that it caused made of a scheduled message; null: the row is no such effect."""
    topic, tag = F.col("topic"), F.col("tag")
    by_decision = F.when(tag == "recall", RECALLED).when(tag == "drop", DROPPED)
    # Of a message that damage took, nobody knows when it was due.
    is_effect = F.col("deliver_at").isNotNull() | ((topic == DECISION_TOPIC) & (tag == "drop"))
    return F.when(
        F.col("cause").isNotNull() & is_effect,
        F.when(topic == DECISION_TOPIC, by_decision).when(_is_scheduled(), MOVED).otherwise(DELIVERED),
    )


def _changes(log: DataFrame) -> DataFrame:
    """The rows of the log that begin or end a row of the table (or, as a moved one, both)."""
    changes = log.withColumn("end_state", _end_state())
    return changes.where(_is_scheduled() | F.col("end_state").isNotNull())


def merged(waiting: DataFrame | None, changes: DataFrame) -> DataFrame:
    """The rows of `waiting` and those that `changes` begin, those that it ends with their ends."""
    begun = changes.where(_is_scheduled()).select(*_begun_columns())
    rows = begun if waiting is None else waiting.unionByName(begun)
    copy = F.when(F.col("end_state").isin(DELIVERED, MOVED), F.col("message_id"))
    ends = changes.where("end_state IS NOT NULL").select(
        "broker",
        F.col("cause").alias("position"),
        "end_state",
        F.col("store_time").alias("end_time"),
        copy.alias("end_message_id"),
    )
    is_end = F.col("end_state").isNotNull()
    ended = {
        "state": F.coalesce("end_state", "state"),
        "ended_at": F.coalesce("end_time", "ended_at"),
        "ended_date": F.when(is_end, F.to_date("end_time")).otherwise(F.col("ended_date")),
        "delivered_message_id": F.coalesce("end_message_id", "delivered_message_id"),
    }
    return rows.join(ends, list(_KEY), "left").withColumns(ended).select(*SCHEDULED.columns)


def _begun_columns() -> list[Column]:
    """A message of the schedule topic as a row that waits."""
    computed = {
        "topic": F.col("real_topic"),
        "queue_id": F.col("real_queue_id"),
        "due": F.col("deliver_at"),
        "scheduled_at": F.col("store_time"),
        "kind": F.when(F.col("retry_topic").isNotNull(), "retry").otherwise("delay"),
        "state": F.lit(WAITING),
    }
    later = {"ended_at", "ended_date", "delivered_message_id"}
    columns: list[Column] = []
    for name, kind in SCHEDULED.columns.items():
        value = F.lit(None).cast(kind) if name in later else computed.get(name, F.col(name))
        columns.append(value.alias(name))
    return columns


SCHEDULED = LakeTable(
    name="scheduled",
    columns={
        "broker": "string",
        "position": "bigint",
        "message_id": "string",
        "topic": "string",
        "queue_id": "int",
        "tag": "string",
        "keys": "array<string>",
        "due": "timestamp",
        "scheduled_at": "timestamp",
        "kind": "string",
        "state": "string",
        "ended_at": "timestamp",
        "ended_date": "date",
        "delivered_message_id": "string",
        "origin_message_id": "string",
        "group": "string",
        "retry_topic": "string",
        "reconsume_times": "int",
    },
    partition_by="ended_date",
    time_column="due",
    statistics=("broker", "position", "due", "state", "message_id"),
    log_columns=(
        "broker",
        "position",
        "message_id",
        "topic",
        "tag",
        "keys",
        "store_time",
        "deliver_at",
        "reconsume_times",
        "real_topic",
        "real_queue_id",
        "origin_message_id",
        "cause",
        "group",
        "retry_topic",
    ),
    rows=_changes,
    of_log=changes,
)
"""`rows` makes changes of the log's rows, which `ScheduledWriter` merges into the table."""
