"""The Spark Connect server in the jobs' JVM: one warm session for `lakemq sql`, notebooks and others.

Spark's plugin starts it with the session and stops it with it. Each client has a session of its own
there: conf, temporary views and functions are its own; tables and `live` are everybody's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Generator
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.discovery import Server, server_url
from lakemq.settings import Settings, Sql

LIVE = "live"
"""The database of the views that are the same in all sessions: Spark's global temporary views."""

PORTS_TRIED_MAX = 32
_TOKEN_BYTES = 32
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 (a name of Spark's)

CONF = {
    "spark.sql.globalTempDatabase": LIVE,
    # A kept plan would show a table as it was when a client first read it.
    "spark.connect.session.planCache.enabled": "false",
}


def server_conf(settings: Sql) -> dict[str, str]:
    """What of Spark's conf makes the session a server too; the token is not part of it."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": settings.host,
        "spark.connect.grpc.binding.port": str(settings.port),
        "spark.connect.grpc.port.maxRetries": str(PORTS_TRIED_MAX),
    }


@contextlib.contextmanager
def token_in_environment(settings: Sql | None) -> Generator[None]:
    """A JVM that is started meanwhile asks its clients for the token that is set, or for one that nobody knows yet.
    None: it is no server.

    Spark's conf would have it on the JVM's command line, which every user of the machine can read.
    """
    before = os.environ.pop(_TOKEN, None)
    if settings is not None:
        os.environ[_TOKEN] = settings.token or secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        yield
    finally:
        os.environ.pop(_TOKEN, None)
        if before is not None:
            os.environ[_TOKEN] = before


def server_of(session: SparkSession, settings: Settings) -> Server:
    """The server of that session's JVM; `start_session` with `connect` has started it."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    service = loader.loadClass("org.apache.spark.sql.connect.service.SparkConnectService$")
    port = service.getField("MODULE$").get(None).localPort()
    token = "" if settings.sql.token else token_of(session)
    return Server(server_url(settings.sql, port), os.getpid(), token)


def token_of(session: SparkSession) -> str:
    """What that session's JVM, which is a server too, asks its clients for."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    return str(jvm.java.lang.System.getenv(_TOKEN) or "")
