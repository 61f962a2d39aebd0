"""The session of the query that routes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.session import register_source

POOL = "routing"
"""Its tasks come before the lake's: fairscheduler.xml."""

CONF = {
    # Little data at a time, and each task costs: one partition.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # For as few rows as these, code that is compiled anew is a fifth of all work.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Time comes with the source's ticks, only while something waits for it.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # The checkpoint is scratch.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}


def routing_session(session: SparkSession) -> SparkSession:
    """A session of the same Spark, with the conf of the query that routes."""
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
