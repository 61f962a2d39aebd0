"""A session of PySpark's own at the jobs' server, one that gives up soon when the server is gone.

PySpark's client tries each request for ten minutes, and sends one more as its process ends: who had a session of
jobs that are no more waited for that long at the end of a notebook.
"""

from __future__ import annotations

import atexit
import contextlib
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRIES = 7
BACKOFF_MS_MAX = 2_000
"""Some ten seconds in all. Jobs that are started again have another server, which doesn't know the session."""


def connect_session(url: str) -> SparkSession:
    """A new session at a Spark Connect server, independent of this process's classic ones; bounded. `stop` it."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    return bounded(cast("SparkSession", ConnectSession.Builder().remote(url).create()))


def bounded(session: SparkSession) -> SparkSession:
    """A session at a server. From now on a request that the server doesn't take is tried again for ten seconds only,
    and at the process's end nothing is sent."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    client.set_retry_policies(
        [
            DefaultPolicy(
                max_retries=RETRIES, max_backoff=BACKOFF_MS_MAX, max_server_retry_delay=BACKOFF_MS_MAX, jitter=0
            )
        ]
    )
    atexit.register(_leave, client)  # it runs before the client's own, which was registered first
    return session


def _leave(client: Any) -> None:
    """Close the connection, after which PySpark sends nothing more. The server forgets the session by itself."""
    with contextlib.suppress(Exception):
        client.close()
