"""A way to a server on which answers are lost, or nothing gets through."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from tests.ports import HOST


class FaultyWire:
    """Connections to it are connections to the server at `address`. `lost`: what holds these bytes reaches the server,
    and its answer nobody. `hangs`: nothing gets through, and nobody is told. Closed with `close`."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._server = parts.hostname or "", parts.port or 0
        self.lost: bytes | None = None
        self.lost_count = 0
        self.hangs = False
        self._ends = False
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(0.05)
        self.address = f"http://{HOST}:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._ends = True
        for each in self._threads:
            each.join()

    def _accept(self) -> None:
        with self._listener:
            while not self._ends:
                with suppress(TimeoutError):
                    client, _ = self._listener.accept()
                    thread = threading.Thread(target=self._carry, args=(client,))
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            is_lost = False
            while not self._ends:
                if self.hangs:
                    threading.Event().wait(0.02)
                    continue
                readable, _, _ = select.select([client, server], [], [], 0.02)
                if self.hangs:
                    continue
                for each in readable:
                    data = each.recv(1 << 20)
                    if not data or (each is server and is_lost):
                        self.lost_count += is_lost
                        return
                    if each is client:
                        is_lost = is_lost or (self.lost is not None and self.lost in data)
                    (server if each is client else client).sendall(data)
