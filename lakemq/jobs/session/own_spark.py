"""Whose Spark it is: one that a step started ends with that step, and one that was there before stays."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession


def has_spark() -> bool:
    """Whether this process has a Spark already.

    The active session doesn't say: it is that of one of Java's threads, and a thread of Python has another one after
    an interrupt closed its connection.
    """
    return SparkContext._active_spark_context is not None  # pyright: ignore[reportPrivateUsage]


@contextmanager
def own_spark() -> Generator[None]:
    """What starts a Spark within has it stopped at the end; the one that the process had before is left alone."""
    had_one = has_spark()
    try:
        yield
    finally:
        started = SparkSession._instantiatedSession  # pyright: ignore[reportPrivateUsage]
        if not had_one and started is not None:
            started.stop()
