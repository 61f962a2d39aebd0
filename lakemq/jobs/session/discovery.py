"""Where the jobs' Spark Connect server is: a file in the lake's folder says so.

Nothing here needs Spark, so that a client can look before it imports anything of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lakemq.jobs.session.token_file import forget_token, keep_token
from lakemq.objects.path import beside
from lakemq.settings import Sql, is_loopback
from lakemq.storage.disk.privacy import DIRECTORY_MODE

FILE = "_connect.json"
"""In the lake's folder; Delta's readers pass over names like this."""

_LOOK_S_MAX = 0.5
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 (no place to listen)


@dataclass(frozen=True)
class Server:
    """A Spark Connect server. `url` is what Spark's clients take, but for the token. `token`: what it wants, where this
    process has started it and nobody has set one; it is announced apart."""

    url: str
    pid: int
    token: str = field(default="", repr=False, compare=False)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 15_002


def server_url(settings: Sql, port: int) -> str:
    """Where clients on this machine reach a server that listens on `settings.host`."""
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"sc://[{host}]:{port}" if ":" in host else f"sc://{host}:{port}"


def announce(lake: Path, server: Server) -> None:
    """Says in the lake's folder where the server is, and before that what it wants (`token_file`); each file appears
    whole."""
    lake = beside(lake)
    lake.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    keep_token(lake, server.token)
    new = lake / f"{FILE}.{server.pid}"
    content = {"url": server.url, "pid": server.pid, "boot": boot()}
    new.write_text(json.dumps(content) + "\n", encoding="utf-8")
    new.replace(lake / FILE)


def withdraw(lake: Path) -> None:
    """Removes what this process announced, and nothing of another."""
    announced = read(lake)
    if announced is not None and announced.pid == os.getpid():
        (beside(lake) / FILE).unlink(missing_ok=True)
        forget_token(lake)


def read(lake: Path) -> Server | None:
    """What was announced, though it may be gone; None: nothing that this machine reaches."""
    try:
        content = json.loads((beside(lake) / FILE).read_text(encoding="utf-8"))
        server = Server(str(content["url"]), int(content["pid"]))
        if not all(server.address):  # which fails for what is no URL
            return None
        # Another machine's, in a folder that both have: its loopback is not this one's, nor are its processes.
        is_elsewhere = content.get("boot", boot()) != boot()
        return None if is_elsewhere and is_loopback(server.address[0]) else server
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


def boot() -> str:
    """This run of this machine, where the system names it; else ""."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _runs(pid: int) -> bool:
    """Whether the process is there: another may have its port by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return True
