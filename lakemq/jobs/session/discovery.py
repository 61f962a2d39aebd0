"""Where the jobs' Spark Connect server is: a file in the lake's folder says so.

Nothing here needs Spark, so that a client can look before it imports anything of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from lakemq.model.errors import SettingsError
from lakemq.objects.path import beside
from lakemq.settings import Sql, is_loopback
from lakemq.storage.disk.privacy import DIRECTORY_MODE

FILE = "_connect.json"
"""In the lake's folder; Delta's readers pass over names like this."""

_LOOK_S_MAX = 0.5
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104


@dataclass(frozen=True)
class Server:
    """A Spark Connect server. `url` is what Spark's clients take, but for the token."""

    url: str
    pid: int

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 15_002

    def url_with(self, token: str) -> str:
        """The URL for PySpark's client, which sends a token in the clear to `localhost` only.

        Raises `SettingsError` where a token is needed and the server is not to be reached so.
        """
        if not token:
            return self.url
        host, port = self.address
        if not is_loopback(host):
            raise SettingsError(
                f"Spark's client sends sql.token in the clear to localhost only, and the server is at {host}: "
                "set sql.host to 0.0.0.0, or put a proxy with TLS in front of it"
            )
        return f"sc://localhost:{port}/;token={quote(token, safe='')}"


def server_url(settings: Sql, port: int) -> str:
    """Where clients on this machine reach a server that listens on `settings.host`."""
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"sc://[{host}]:{port}" if ":" in host else f"sc://{host}:{port}"


def announce(lake: Path, server: Server) -> None:
    """Says in the lake's folder where the server is; the file appears whole."""
    lake = beside(lake)
    lake.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    new = lake / f"{FILE}.{server.pid}"
    new.write_text(json.dumps({"url": server.url, "pid": server.pid}) + "\n", encoding="utf-8")
    new.replace(lake / FILE)


def withdraw(lake: Path) -> None:
    """Removes what this process announced, and nothing of another."""
    announced = read(lake)
    if announced is not None and announced.pid == os.getpid():
        (beside(lake) / FILE).unlink(missing_ok=True)


def read(lake: Path) -> Server | None:
    """What was announced, though it may be gone; None: nothing."""
    try:
        content = json.loads((beside(lake) / FILE).read_text(encoding="utf-8"))
        server = Server(str(content["url"]), int(content["pid"]))
        return server if all(server.address) else None  # which fails for what is no URL
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_server(lake: Path) -> Server | None:
    """The server that runs for this lake: announced, and somebody listens there. Takes half a second
    at most."""
    server = read(lake)
    if server is None or (is_loopback(server.address[0]) and not _runs(server.pid)):
        return None
    with contextlib.suppress(OSError), socket.create_connection(server.address, _LOOK_S_MAX):
        return server
    return None


def _runs(pid: int) -> bool:
    """Whether the process is there: another may have its port by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return True
