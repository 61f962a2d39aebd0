"""What the routing queries have in common as streams."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.session.session import register_source

POOL = "routing"
"""Its tasks come before the lake's: fairscheduler.xml."""

CONF = {
    # Little data at a time, and each task costs: one partition.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # A batch's watermark is a constant in its code, so each batch would be compiled anew: for as few
    # rows as these, that is a fifth of all its work.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Time comes with the source's ticks, only while something waits for it.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Rows of all branches carry the one clock of their batch.
    "spark.sql.streaming.multipleWatermarkPolicy": "max",
    "spark.sql.streaming.join.stateFormatVersion": "3",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # The checkpoint is scratch.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}


def routing_session(session: SparkSession) -> SparkSession:
    """A session of the same Spark, with the conf of the routing queries."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    sessions = jvm.org.apache.spark.sql.SparkSession
    own = session.newSession()
    # Spark looks for a source of that name in the active session, whichever it shall be added to.
    sessions.setActiveSession(own._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    register_source(own)
    sessions.setActiveSession(session._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    for key, value in CONF.items():
        own.conf.set(key, value)
    return own


def above_watermark(condition: Column, event_time: str) -> Column:
    """The condition, in a form that Spark leaves where it stands.

    A filter that does not read the event time is pushed below the watermark, and a part of one
    too. Then the watermark would not see the ticks, and time would stand still.
    """
    return F.when(condition, F.col(event_time)) > F.timestamp_millis(F.lit(0))
