"""What a session needs to write and read a lake in object storage: S3A, and Delta's log by conditional puts.

Keys are given to a JVM that runs: Spark's conf would have them on its command line, which every user of the machine
can read. They go to executors with each task's own conf of Hadoop.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.upload_buffers import buffer_folder
from lakemq.objects.path import ObjectPath

LOG_STORE = "io.lakemq.ConditionalLogStore"
_KEYS = {"access_key_id": "access.key", "secret_access_key": "secret.key", "session_token": "session.token"}
_REGION = "us-east-1"
"""Of a store that isn't Amazon's, and has none: requests are signed for one all the same."""


def object_conf(lake: ObjectPath) -> dict[str, str]:
    """Of Spark, without keys."""
    access = lake.bucket.access
    conf = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.delta.logStore.s3.impl": LOG_STORE,
        "spark.delta.logStore.s3a.impl": LOG_STORE,
        "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
        "spark.hadoop.fs.s3a.buffer.dir": str(buffer_folder(lake)),
    }
    if access.endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = access.endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(access.endpoint.startswith("https:")).lower()
    if access.region or access.endpoint:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = access.region or _REGION
    return conf


def give_keys(session: SparkSession, lake: ObjectPath) -> None:
    """Before anything of the lake is read."""
    context: Any = session.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    for name, key in _KEYS.items():
        value = getattr(lake.bucket.access, name)
        if value:
            hadoop.set(f"fs.s3a.{key}", value)
