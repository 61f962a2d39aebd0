"""Spark's own parser: what it makes of a text is what Spark would run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext

from lakemq.jobs.session.bare_java import start_bare_java

_ENDS_S = 60


@contextmanager
def open_parser() -> Generator[Any]:
    """A parser: of this process's JVM, or of one that ends with it where there is none, as beside a session over Spark
    Connect, which tells nobody how it reads a text. Such a JVM takes some seconds and starts no Spark. Raises
    `JavaNotFound`, `SparkNotStarted`."""
    active: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if active is not None:
        yield _parser(active)
        return
    gateway = start_bare_java()
    try:
        yield _parser(gateway)
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()  # by which it knows that nobody needs it
        gateway.java_process.wait(_ENDS_S)


def _parser(gateway: Any) -> Any:
    return gateway.jvm.org.apache.spark.sql.execution.SparkSqlParser()
