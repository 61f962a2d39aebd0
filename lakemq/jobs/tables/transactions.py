"""The table `transactions`: each transaction's history, a row an event, only ever appended to.

The events are rows of the system topics, and the effects that carry a transaction's id. `state` is
what the transaction is after the event, null where the event changes nothing by itself: a commit is
asked for by its producer (`commit`), and happens when the broker writes the copy (`committed`).
`transaction_id` is the message id of its first half: what it is resolved by is known to its producer.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.transaction_rows import (
    CHECKED,
    COMMITTED,
    GIVEN_UP,
    HALF,
    OF_PRODUCER,
    ROLLED_BACK,
    transaction_events,
)
from lakemq.model.ids import NONCE_PATTERN
from lakemq.model.names import (
    CHECK_MAX_TOPIC,
    DECISION_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIXES,
)


def _event() -> Column:
    """What a row of the log tells of its transaction; null: nothing."""
    topic, tag = F.col("topic"), F.col("tag")
    of_transaction = F.col("transaction_id").isNotNull()
    is_effect = F.col("cause").isNotNull() & of_transaction
    return (
        F.when(topic == HALF_TOPIC, F.when(of_transaction, "check").otherwise("half"))
        .when(topic == OP_TOPIC, tag)
        .when(topic == CHECK_MAX_TOPIC, "give_up")
        .when((topic == DECISION_TOPIC) & of_transaction, F.when(tag == "drop", "dropped").otherwise("rolled_back"))
        .when(is_effect & ~_is_system(topic), "committed")
    )


def _is_system(topic: Column) -> Column:
    """As `lakemq.model.names.is_system`: a retry of a committed message is no event of its own."""
    found = topic == SCHEDULE_TOPIC
    for prefix in SYSTEM_PREFIXES:
        found = found | topic.startswith(prefix)
    return found


def _state() -> Column:
    event = F.col("event")
    anticipated = (event == "rollback") & F.col("cause").isNotNull()
    return (
        F.when(event == "half", HALF)
        .when(event == "check", CHECKED)
        .when(event == "committed", COMMITTED)
        .when((event == "rolled_back") | anticipated, ROLLED_BACK)
        .when(event == "dropped", COMMITTED)
        .when(event == "give_up", GIVEN_UP)
    )


def _half_id(transaction_id: Column) -> Column:
    """The id of the transaction's first half: its own, without the nonce that is its producer's alone."""
    return F.regexp_replace(transaction_id, f"{NONCE_PATTERN}$", "")


def _rows(log: DataFrame) -> DataFrame:
    event = F.col("event")
    is_copy = event == "committed"
    events = log.withColumn("event", _event()).where(event.isNotNull())
    return events.select(
        _half_id(F.coalesce("transaction_id", "message_id")).alias("transaction_id"),
        event,
        F.when(event.isin(*OF_PRODUCER), "producer").otherwise("broker").alias("by"),
        F.col("store_time").alias("event_time"),
        F.col("group").alias("producer_group"),
        F.when(is_copy, F.col("topic")).otherwise(F.col("real_topic")).alias("topic"),
        "check_times",
        _state().alias("state"),
        F.when(is_copy, F.col("message_id")).alias("message_id"),
        "broker",
        "position",
    )


TRANSACTIONS = LakeTable(
    name="transactions",
    columns={
        "transaction_id": "string",
        "event": "string",
        "by": "string",
        "event_time": "timestamp",
        "producer_group": "string",
        "topic": "string",
        "check_times": "int",
        "state": "string",
        "message_id": "string",
        "broker": "string",
        "position": "bigint",
    },
    cluster_by=("transaction_id", "event_time"),
    statistics=("transaction_id", "event_time", "broker", "position"),
    time_column="event_time",
    log_columns=(
        "broker",
        "position",
        "topic",
        "message_id",
        "tag",
        "store_time",
        "real_topic",
        "transaction_id",
        "cause",
        "group",
        "check_times",
    ),
    rows=_rows,
    of_log=transaction_events,
)
"""A transaction's events in the order of their positions; `message_id` is the committed copy's."""
