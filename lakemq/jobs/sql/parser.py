"""Spark's own parser: what it makes of a text is what Spark would run."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkContext

from lakemq.jobs.errors import SparkNotStarted
from lakemq.jobs.session.java import QUICK, check_java

_HEAP = "-Xmx1g"
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
    gateway = _start_java()
    try:
        yield _parser(gateway)
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()  # by which it knows that nobody needs it
        gateway.java_process.wait(_ENDS_S)


def _start_java() -> Any:
    """A JVM with Spark's classes alone. Not by PySpark's `launch_gateway`: that calls Python between fork and exec, and
    where a session over Spark Connect is open gRPC's own fork handlers then end the child, about once in a hundred
    times."""
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        return JavaGateway.launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=f"{jars}/*",
            javaopts=[*QUICK.split(), _HEAP],
            java_path=str(check_java()),
            die_on_exit=True,
            enable_auth=True,
            redirect_stderr=sys.__stderr__,
        )
    except ValueError:  # instead of its port it has said nothing
        raise SparkNotStarted("Spark's Java ended before it was up; what it said stands above") from None


def _parser(gateway: Any) -> Any:
    return gateway.jvm.org.apache.spark.sql.execution.SparkSqlParser()
