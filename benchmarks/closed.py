"""Closed-loop load of single requests, in a process of its own: `python -m benchmarks.closed`.

Every connection sends its next request when it has the answer to the one before. It prints what
happened after the warm-up as JSON. It takes about as much of a processor as a bare uvicorn, so
where it is the limit (`limited_by`) a compiled generator gives higher figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import time
from typing import Any, cast

import uvloop

from benchmarks.bodies import random_bodies
from benchmarks.cpu import Meter, cpu_s
from benchmarks.results import latencies
from benchmarks.wire import address_of, build, length_of
from lakemq.wire.tls import client_context

_OK = b"HTTP/1.1 2"
_TOKEN = "BENCHMARK_TOKEN"


class Load:
    """What all connections share: the request, the window that counts, the answers in it, and what the server's
    processes used of the processors meanwhile. The window begins when all are connected, and warm."""

    def __init__(self, request: bytes, warm_s: float, measured_s: float, server_pid: int) -> None:
        self.request = request
        self.begin_ns = self.end_ns = sys.maxsize
        self.latencies_ns: list[int] = []
        self.errors = 0
        self.server_cpu_s = 0.0
        self._warm_s, self._measured_s = warm_s, measured_s
        self._server_pid = server_pid

    async def watch(self) -> None:
        """The window, from now on."""
        await asyncio.sleep(self._warm_s)
        before_s = await asyncio.to_thread(cpu_s, self._server_pid)
        self.begin_ns = time.perf_counter_ns()
        self.end_ns = self.begin_ns + int(self._measured_s * 1e9)
        await asyncio.sleep(self._measured_s)
        self.server_cpu_s = await asyncio.to_thread(cpu_s, self._server_pid) - before_s


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._send()

    def _send(self) -> None:
        self._sent_ns = time.perf_counter_ns()
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        end = received.find(b"\r\n\r\n")
        if end < 0 or len(received) < end + 4 + length_of(received[:end]):
            return
        now = time.perf_counter_ns()
        load = self._load
        if not received.startswith(_OK):
            load.errors += 1
        elif load.begin_ns <= now <= load.end_ns:
            load.latencies_ns.append(now - self._sent_ns)
        self._received = b""
        if now < load.end_ns:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Secured(asyncio.Protocol):
    """The socket's protocol of a client by TLS, and its transport: it takes less than an event loop's own."""

    def __init__(self, client: Client, context: ssl.SSLContext, host: str) -> None:
        self._client = client
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._ready = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._shake()

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
            self._ready = True
        except ssl.SSLWantReadError:
            pass
        self._raw.write(self._outgoing.read())
        if self._ready:
            self._client.connection_made(cast("asyncio.Transport", self))

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._ready:
            self._shake()
        while self._ready and self._incoming.pending:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._client.data_received(self._tls.read(1 << 14))

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.connection_lost(exc)

    def write(self, data: bytes) -> None:
        """As a transport does."""
        self._tls.write(data)
        self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """As a transport does."""
        self._raw.close()


async def _run(url: str, connections: int, load: Load) -> None:
    loop = asyncio.get_running_loop()
    host, port = address_of(url)
    tls = client_context(None) if url.startswith("https:") else None
    clients = [Client(load) for _ in range(connections)]
    for each in clients:
        protocol = each if tls is None else Secured(each, tls, host)
        await loop.create_connection(lambda protocol=protocol: protocol, host, port)
    await load.watch()
    await asyncio.wait([client.done for client in clients], timeout=10)


def measure(
    url: str, target: str, connections: int, warm_s: float, measured_s: float, server_pid: int, token: str = ""
) -> dict[str, Any]:
    """Run it, and say what it and everything else used, with the connections' handshakes; `window_cpu_s` is the
    server's for the messages that count alone. Each request has the `token`, if there is one."""
    numbers = map(str, (connections, warm_s, measured_s, server_pid))
    command = [sys.executable, "-m", "benchmarks.closed", url, target, *numbers]
    with Meter(server_pid) as meter:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            check=True,
            timeout=warm_s + measured_s + 60,
            env=os.environ | {_TOKEN: token},
        )
    answer: dict[str, Any] = {**json.loads(done.stdout), **meter.spent()}
    answer["limited_by"] = "client" if answer["client_cpu_s"] > 0.9 * meter.wall_s else "server"
    return answer


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("target")
    parser.add_argument("connections", type=int)
    parser.add_argument("warm_s", type=float)
    parser.add_argument("measured_s", type=float)
    parser.add_argument("server_pid", type=int)
    chosen = parser.parse_args()
    body = random_bodies(1, 1024)[0]
    token = os.environ.get(_TOKEN)
    authorization = {"authorization": f"Bearer {token}"} if token else {}
    request = build("POST", chosen.target, body, content_type="application/octet-stream", **authorization)
    load = Load(request, chosen.warm_s, chosen.measured_s, chosen.server_pid)
    uvloop.run(_run(chosen.url, chosen.connections, load))
    count = len(load.latencies_ns)
    answer = {"msgs": count, "msgs_per_s": count / chosen.measured_s, "errors": load.errors, "pid": os.getpid()}
    answer["window_cpu_s"] = round(load.server_cpu_s, 2)
    print(json.dumps({**answer, **latencies(load.latencies_ns)}))


if __name__ == "__main__":
    _main()
