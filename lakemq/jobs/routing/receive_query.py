"""What was received and not acknowledged: receipts LEFT OUTER JOIN their effects, until each runs out.

A match is an acknowledgement, a nack, or the receipt that takes this one's place: nothing to decide. No match
in time is a retry, or a dead letter. Each receipt has a time of its own, `until`, which its effect
names too. It is a key of the join, and marked as an event time: so Spark keeps both sides until the
watermark, which is the log's time, has passed it.
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
from lakemq.model.decide import of_receipt
from lakemq.model.names import ACK_TOPIC, NACK_TOPIC, RECEIVE_TOPIC

_TIME = "event_time"
_EVENT_TIME: dict[str, Any] = {"spark.watermarkDelayMs": 0}
"""What Spark's `withWatermark` marks a column with. The watermark itself is that of `_TIME`."""


class ReceiveRule:
    """Receipts that run out lead to a retry, or to the dead letters."""

    name = "receive"
    kind: Kind = "receive"
    topics = (RECEIVE_TOPIC, ACK_TOPIC, NACK_TOPIC)
    columns = ("broker", "position", "topic", "cause", "reconsume_times", "properties", "deliver_at", _TIME)
    timer = "receive"
    trigger_ms_min = 0

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        _ = terms
        log = log.withWatermark(_TIME, "0 seconds")
        receipts = log.where(above_watermark(F.col("topic") == RECEIVE_TOPIC, _TIME)).select(
            "broker",
            F.col("position").alias("receipt"),
            _not_late("deliver_at", "until"),
            F.coalesce("reconsume_times", F.lit(0)).alias("reconsume_times"),
            F.col("properties")["max_reconsume_times"].cast("int").alias("max_reconsume_times"),
        )
        replaced = F.timestamp_millis(F.col("properties")["replaced_until_ms"].cast("bigint"))
        effects = log.where(above_watermark(F.col("cause").isNotNull(), _TIME)).select(
            F.col("broker").alias("broker_of"),
            F.col("cause").alias("of"),
            _not_late(F.when(F.col("topic") == RECEIVE_TOPIC, replaced).otherwise(F.col("deliver_at")), "until_of"),
        )
        joined = receipts.join(
            effects,
            (F.col("broker") == F.col("broker_of"))
            & (F.col("receipt") == F.col("of"))
            & (F.col("until") == F.col("until_of")),
            "leftOuter",
        )
        ran_out = joined.where(F.col("of").isNull())
        return ran_out.select("broker", "receipt", "reconsume_times", "max_reconsume_times", F.unix_millis("until"))

    def decisions(self, rows: pa.Table, terms: RoutingTerms) -> Iterable[Decision]:
        columns = (column.to_pylist() for column in rows.columns)
        for broker, receipt, times, most, until_ms in zip(*columns, strict=True):
            effect = of_receipt(times, terms.max_reconsume_times if most is None else most)
            yield Decision(broker, receipt, effect.action, until_ms)


def _not_late(time: Column | str, name: str) -> Column:
    """The time as an event time, but not before the row's own: what was read late would be dropped as
    too late. (Then the two sides don't match, and the decision is one that changes nothing.)"""
    return F.greatest(time, _TIME).alias(name, metadata=_EVENT_TIME)
