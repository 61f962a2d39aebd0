"""What a session needs to write and read a lake in object storage: S3A, and Delta's log by conditional puts.

Keys are given to a JVM that runs: Spark's conf would have them on its command line, which every user of the machine
can read. They go to executors with each task's own conf of Hadoop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.upload_buffers import buffer_folder
from lakemq.model.errors import SettingsError
from lakemq.objects.path import ObjectPath

LOG_STORE = "io.lakemq.ConditionalLogStore"
BUFFER_DIR = "spark.hadoop.fs.s3a.buffer.dir"
_OTHERWISE = re.compile(r",|\$\{")
"""Hadoop takes a path with a comma for those of two folders, and `${…}` for a variable; neither can be escaped."""
_KEYS = {"access_key_id": "access.key", "secret_access_key": "secret.key", "session_token": "session.token"}
_REGION = "us-east-1"
"""Of a store that isn't Amazon's, and has none: requests are signed for one all the same."""


def object_conf(lake: ObjectPath, given: Mapping[str, str]) -> dict[str, str]:
    """Of Spark, without keys, for who has given what comes after it. Raises `SettingsError`."""
    access = lake.bucket.access
    conf = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.delta.logStore.s3.impl": LOG_STORE,
        "spark.delta.logStore.s3a.impl": LOG_STORE,
        "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
    }
    if BUFFER_DIR not in given:
        conf[BUFFER_DIR] = _buffer_dir(lake)
    if access.endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = access.endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(access.endpoint.startswith("https:")).lower()
    if access.region or access.endpoint:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = access.region or _REGION
    return conf


def _buffer_dir(lake: ObjectPath) -> str:
    folder = str(buffer_folder(lake))
    if found := _OTHERWISE.search(folder):
        raise SettingsError(
            f"Hadoop can't keep uploads in {ascii(folder)[:1000]}: in a path it reads {found[0]} as something else. "
            f"Set lake.work_dir so that there is none, or {BUFFER_DIR} in [spark.conf]"
        )
    return folder


def give_keys(session: SparkSession, lake: ObjectPath) -> None:
    """Before anything of the lake is read."""
    context: Any = session.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    for name, key in _KEYS.items():
        value = getattr(lake.bucket.access, name)
        if value:
            hadoop.set(f"fs.s3a.{key}", value)
