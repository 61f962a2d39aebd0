"""Retry and dead letters: nacks, each once, to a retry at a level or to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.routing.broker_routing import RoutingTerms
from lakemq.jobs.routing.query import Kind
from lakemq.jobs.routing.sender import Decision
from lakemq.jobs.routing.stream import above_watermark
from lakemq.model.decide import of_nack
from lakemq.model.names import NACK_TOPIC

_REMEMBERED = "60 seconds"
"""The broker stores no second nack while it knows the first; this is for what it forgot."""


class RetryRule:
    """Nacks lead to a retry, or to the dead letters."""

    name = "retry"
    kind: Kind = "retry"
    topics = (NACK_TOPIC,)
    columns = (
        *("broker", "position", "group", "origin_message_id", "cause"),
        *("reconsume_times", "properties", "store_time", "clock"),
    )
    timer = None
    trigger_ms_min = 0

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        _ = terms
        nacks = log.withWatermark("clock", _REMEMBERED).where(above_watermark(F.col("position").isNotNull(), "clock"))
        # A message that was handed out anew has another receipt, the nack's cause.
        once = nacks.dropDuplicatesWithinWatermark(["broker", "group", "origin_message_id", "cause"])
        return once.select(
            "broker",
            F.col("position").alias("cause"),
            F.coalesce("reconsume_times", F.lit(0)).alias("reconsume_times"),
            F.col("properties")["delay_level"].cast("int").alias("delay_level"),
            F.col("properties")["max_reconsume_times"].cast("int").alias("max_reconsume_times"),
            F.unix_millis("store_time").alias("nacked_ms"),
        )

    def decisions(self, rows: pa.Table, terms: RoutingTerms) -> Iterable[Decision]:
        columns = (column.to_pylist() for column in rows.columns)
        for broker, cause, times, level, most, nacked_ms in zip(*columns, strict=True):
            most_times = terms.max_reconsume_times if most is None else most
            decided = of_nack(times, level or 0, most_times, terms.levels_ms, nacked_ms)
            yield Decision(broker, cause, decided.action, decided.due_ms)
