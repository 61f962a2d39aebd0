"""The jars of Delta and of the bare local file system, and our class that commits to Delta's log on a disk."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pyspark

from lakemq.jobs.session.jar_set import ATTEMPTS_MAX, JarSet, ivy_in
from lakemq.jobs.session.java import check_java
from lakemq.jobs.session.java_source import compile_into, version_of

LOCAL_FS = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
"""Hadoop's local file system without a process forked for each file's permissions."""
LOG_STORE = "io.lakemq.LinkingLogStore"
_SOURCE = "LinkingLogStore"
_OURS = "lakemq-local-log-store.jar"


def _versions() -> str:
    delta = importlib.metadata.version("delta-spark")
    return f"delta-spark {delta}\npyspark {pyspark.__version__}\n{LOCAL_FS}\n{version_of(_SOURCE)}"


DELTA = JarSet("jars", "the Delta jars", "lakemq.jobs.session.jars", "jars.sha256", _versions, frozenset({_OURS}))


def install(attempts_max: int = ATTEMPTS_MAX) -> list[Path]:
    """Those of Delta. Raises `JarsUnavailable`, `JavaNotFound`."""
    check_java()
    return DELTA.install(attempts_max)


def _resolve_and_compile(work: Path) -> None:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars.ivy", ivy_in(work))
    builder = builder.config("spark.ui.enabled", "false")
    session = configure_spark_with_delta_pip(builder, [LOCAL_FS]).getOrCreate()
    compile_into(work / _OURS, _SOURCE, session)
    session.stop()


if __name__ == "__main__":
    _resolve_and_compile(Path(sys.argv[1]))
