"""Transactions: halves LEFT OUTER JOIN operations on the transaction, within the time-out.

A match is a commit or a rollback; no match in time is a check, which the broker carries out by
appending the half once more, and after the last check the half is given up. First halves wait for
one time, those that a check left behind for another: so there are two joins, each a query of its
own. That for checks has fewer batches, and the other is twice as quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.routing.broker_routing import RoutingTerms
from lakemq.jobs.routing.query import Kind
from lakemq.jobs.routing.sender import Decision
from lakemq.jobs.routing.stream import above_watermark
from lakemq.model.decide import of_half
from lakemq.model.names import HALF_TOPIC, OP_TOPIC

_TIME = "event_time"


class TransactionRule:
    """First halves are committed, rolled back or checked."""

    name = "transaction"
    kind: Kind = "transactions"
    topics = (HALF_TOPIC, OP_TOPIC)
    columns = ("broker", "position", "topic", "tag", "message_id", "transaction_id", "check_times", _TIME)
    timer = "transaction"
    trigger_ms_min = 0

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        return _joined(log, F.coalesce("check_times", F.lit(0)) == 0, terms.timeout_ms)

    def decisions(self, rows: pa.Table, terms: RoutingTerms) -> Iterable[Decision]:
        """The first operation of a transaction counts: rows are taken in the operations' order."""
        seen = set[tuple[str, int]]()
        for row in rows.sort_by("operation").to_pylist():
            cause = (row["broker"], row["cause"])
            if cause not in seen:
                seen.add(cause)
                effect = of_half(row["check_times"], terms.check_max, row["resolution"])
                yield Decision(*cause, effect.action)


class CheckRule(TransactionRule):
    """Halves that a check left behind are committed, rolled back, checked once more or given up."""

    name = "check"
    trigger_ms_min = 1_000

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        return _joined(log, F.coalesce("check_times", F.lit(0)) > 0, terms.check_interval_ms)


def _joined(log: DataFrame, which: Column, wait_ms: int) -> DataFrame:
    """A row for each half, with the operation on it or, after `wait_ms`, without one."""
    log = log.withWatermark(_TIME, "0 seconds")
    halves = log.where(above_watermark((F.col("topic") == HALF_TOPIC) & which, _TIME)).select(
        "broker",
        F.coalesce("transaction_id", "message_id").alias("transaction_id"),
        F.col("position").alias("cause"),
        F.coalesce("check_times", F.lit(0)).alias("check_times"),
        _TIME,
    )
    is_resolution = (F.col("topic") == OP_TOPIC) & F.col("tag").isin("commit", "rollback")
    operations = log.where(above_watermark(is_resolution, _TIME)).select(
        F.col("broker").alias("broker_of"),
        F.col("transaction_id").alias("of"),
        F.col("position").alias("operation"),
        F.col("tag").alias("resolution"),
        F.col(_TIME).alias("at"),
    )
    until: Any = F.col(_TIME) + F.expr(f"INTERVAL {wait_ms} MILLISECONDS")
    joined = halves.join(
        operations,
        (F.col("broker") == F.col("broker_of"))
        & (F.col("transaction_id") == F.col("of"))
        & (F.col("at") >= F.col(_TIME))
        & (F.col("at") <= until),
        "leftOuter",
    )
    return joined.select("broker", "cause", "check_times", "operation", "resolution")
