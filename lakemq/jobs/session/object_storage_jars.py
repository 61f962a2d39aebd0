"""The jars of S3A, and the one class of ours that commits to Delta's log in a bucket.

Hadoop asks for all of Amazon's SDK in one jar of 0.7 GB; here are the parts of it that S3A uses. The class is compiled
by the compiler that is part of Spark, as there need not be a JDK.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any

from lakemq.jobs.errors import JarsUnavailable
from lakemq.jobs.session import jars
from lakemq.jobs.session.jar_set import ATTEMPTS_MAX, GETS_THEM, JarSet, ivy_in

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
_SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
_OURS = "lakemq-log-store.jar"


def _versions() -> str:
    source = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    return f"{HADOOP_AWS}\nawssdk {SDK}\n{_SOURCE.name} {source}\n"


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
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    classes = compiler.getBytecodes()
    with zipfile.ZipFile(work / _OURS, "w") as jar:
        for name in sorted(classes):
            jar.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class"), bytes(classes[name]))
    session.stop()


if __name__ == "__main__":
    _resolve_and_compile(Path(sys.argv[1]))
