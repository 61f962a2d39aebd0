"""A session of PySpark's own at the jobs' server, one that gives up soon when the server is gone.

PySpark's client tries each request for ten minutes, and sends one more as its process ends: who had a session of
jobs that are no more waited for that long at the end of a notebook.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import TYPE_CHECKING, Any, cast

from lakemq.jobs.session.discovery import Server
from lakemq.model.errors import SettingsError
from lakemq.settings import is_loopback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRIES = 7
BACKOFF_MS_MAX = 2_000
"""Some ten seconds in all. Jobs that are started again have another server, which doesn't know the session."""

_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""Says to PySpark's functions that they are for sessions at a server."""


def connect_session(server: Server, token: str) -> SparkSession:
    """A new session at a Spark Connect server, independent of this process's classic ones; bounded. `stop` it.

    Raises `SettingsError` where the token would leave this machine.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = ConnectSession.Builder().channelBuilder(_channel_to(server, token))
    return bounded(cast("SparkSession", builder.create()))


def only_session(server: Server, token: str) -> SparkSession:
    """The same, or the one that this process has already; from now on PySpark's functions are those for such sessions.

    Raises `SettingsError` where the token would leave this machine.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = ConnectSession.Builder().channelBuilder(_channel_to(server, token))
    os.environ[_CONNECT_MODE] = "1"
    return bounded(cast("SparkSession", builder.getOrCreate()))


def _channel_to(server: Server, token: str) -> Any:
    """By the very address that was announced: PySpark itself sends a token without TLS to `localhost` only, and that
    is `::1` too, where another user of this machine may listen on the same port."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    host = server.address[0]
    if not is_loopback(host):
        raise SettingsError(
            f"the token of the SQL server would travel in the clear, as the server is at {host}: set sql.host to "
            "0.0.0.0, or put a proxy with TLS in front of it"
        )

    class Channel(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802 (PySpark's name)
            return self._insecure_channel(self.endpoint)

        def metadata(self) -> Any:
            return [*super().metadata(), ("authorization", f"Bearer {token}")]

    return Channel(server.url, channelOptions=[("grpc.enable_http_proxy", 0)])


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
