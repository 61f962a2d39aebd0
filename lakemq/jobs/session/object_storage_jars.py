"""The jars of S3A, and the one class of ours that commits to Delta's log in a bucket.

Hadoop asks for all of Amazon's SDK in one jar of 0.7 GB; here are the parts of it that S3A uses.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lakemq.jobs.errors import JarsUnavailable
from lakemq.jobs.session import jars
from lakemq.jobs.session.jar_set import ATTEMPTS_MAX, GETS_THEM, JarSet, ivy_in
from lakemq.jobs.session.java_source import compile_into, version_of

HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Of the Hadoop that is in pyspark 4.2.0."""
SDK = "2.35.4"
"""The version that this Hadoop was built with."""
_PARTS = ("s3", "sts", "s3-transfer-manager", "apache-client", "netty-nio-client")
_LEFT_OUT = ",".join(
    (
        *("software.amazon.awssdk:bundle", "software.amazon.awssdk:crt-core", "software.amazon.awssdk:aws-crt-client"),
        *("org.wildfly.openssl:wildfly-openssl", "commons-logging:commons-logging"),
    )
)
_SOURCE = "ConditionalLogStore"
_OURS = "lakemq-log-store.jar"


def _versions() -> str:
    return f"{HADOOP_AWS}\nawssdk {SDK}\n{version_of(_SOURCE)}"


S3A = JarSet(
    "object-storage-jars",
    "the jars of S3A",
    "lakemq.jobs.session.object_storage_jars",
    "object_storage_jars.sha256",
    _versions,
    frozenset({_OURS}),
)


def install(attempts_max: int = ATTEMPTS_MAX) -> list[Path]:
    """Gets them unless they are there. Raises `JarsUnavailable`, which says how they are got; `JarsNotGot` is one."""
    jars.install(attempts_max)
    try:
        return S3A.install(attempts_max)
    except JarsUnavailable as error:
        raise type(error)(
            f"{error.detail}. A lake in a bucket needs them, and nothing else does; {GETS_THEM}"
        ) from None


def _resolve_and_compile(work: Path) -> None:
    from pyspark.sql import SparkSession

    wanted = [HADOOP_AWS, *(f"software.amazon.awssdk:{part}:{SDK}" for part in _PARTS)]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars.ivy", ivy_in(work)).config("spark.jars.packages", ",".join(wanted))
    builder = builder.config("spark.jars.excludes", _LEFT_OUT)
    session = builder.config("spark.driver.extraClassPath", f"{jars.DELTA.folder()}/*").getOrCreate()
    compile_into(work / _OURS, _SOURCE, session)
    session.stop()


if __name__ == "__main__":
    _resolve_and_compile(Path(sys.argv[1]))
