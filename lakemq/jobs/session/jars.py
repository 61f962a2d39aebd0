"""The jars of Delta and of the bare local file system."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pyspark

from lakemq.jobs.session.jar_set import ATTEMPTS_MAX, JarSet, ivy_in
from lakemq.jobs.session.java import check_java

LOCAL_FS = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
"""Hadoop's local file system without a process forked for each file's permissions."""


def _versions() -> str:
    delta = importlib.metadata.version("delta-spark")
    return f"delta-spark {delta}\npyspark {pyspark.__version__}\n{LOCAL_FS}\n"


DELTA = JarSet("jars", "the Delta jars", "lakemq.jobs.session.jars", "jars.sha256", _versions)


def install(attempts_max: int = ATTEMPTS_MAX) -> list[Path]:
    """Those of Delta. Raises `JarsUnavailable`, `JavaNotFound`."""
    check_java()
    return DELTA.install(attempts_max)


def _start_and_stop(ivy: str) -> None:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars.ivy", ivy)
    builder = builder.config("spark.ui.enabled", "false")
    configure_spark_with_delta_pip(builder, [LOCAL_FS]).getOrCreate().stop()


if __name__ == "__main__":
    _start_and_stop(ivy_in(Path(sys.argv[1])))
