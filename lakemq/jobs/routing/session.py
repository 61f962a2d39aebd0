"""The Spark session of the routing query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.session import register_source

POOL = "routing"
"""The scheduler pool of its tasks, which run before those of the lake (fairscheduler.xml)."""

CONF = {
    # Little data at a time, and each task has a cost: one partition.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # For as few rows as these, compiling the code again is a fifth of all work.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The source's ticks bring the time, and only while something waits for it.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # No run reads the checkpoint of another, so old batches are of no use.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}


def routing_session(session: SparkSession) -> SparkSession:
    """A new session of the same Spark application, with the conf of the routing query."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    sessions = jvm.org.apache.spark.sql.SparkSession
    own = session.newSession()
    # Spark checks in the active session, not in `own`, whether a source of that name exists already.
    sessions.setActiveSession(own._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    register_source(own)
    sessions.setActiveSession(session._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    for key, value in CONF.items():
        own.conf.set(key, value)
    return own
