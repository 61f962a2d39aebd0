"""A Java with Spark's classes, in which no Spark runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway

from lakemq.jobs.errors import SparkNotStarted
from lakemq.jobs.session.java import QUICK, check_java

_HEAP = "-Xmx1g"


def start_bare_java() -> Any:
    """Its gateway: who starts it ends it. Raises `JavaNotFound`, `SparkNotStarted`.

    Not by PySpark's `launch_gateway`: that calls Python between fork and exec, and where a session over Spark Connect
    is open gRPC's own fork handlers then end the child, about once in a hundred times.
    """
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
