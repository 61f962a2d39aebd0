"""A name server with many brokers and many clients that watch it: `python -m benchmarks.nameserver`.

Brokers send a heartbeat every 30 s; clients watch one topic that some of the brokers have, and ask again after 30 s
as ours do. Measured are its share of one core, while nothing changes and with a change every few seconds that all
watch; and how long it takes until the last of them has the change, from when it is sent.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from typing import Any

import uvloop

from benchmarks.cpu import Meter, rss_bytes
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import BadAnswer, address_of, build, length_of
from lakemq.testing import start_nameserver

SHARED = "shared"
CONNECTED_AT_ONCE = 200
KNOWN_S_MAX = 60.0
_END_OF_HEAD = b"\r\n\r\n"
_VERSION = slice(len('{"version":"'), len('{"version":"') + 32)


class Client(asyncio.Protocol):
    """One kept connection; `answered` gets the body of each answer."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._end = 0

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while self._is_whole():
            answer, self._received = bytes(self._received[: self._end]), self._received[self._end :]
            self._end = 0
            self.answered(answer.partition(_END_OF_HEAD)[2])

    def _is_whole(self) -> bool:
        if not self._end:
            head = self._received.find(_END_OF_HEAD)
            if head < 0:
                return False
            if self._received[9:12] != b"200":
                raise BadAnswer(bytes(self._received[:400]))
            self._end = head + len(_END_OF_HEAD) + length_of(self._received[:head])
        return len(self._received) >= self._end

    def answered(self, body: bytes) -> None:
        """The whole answer to the request that was sent last."""


class Watcher(Client):
    """Watches the shared topic, and tells `audience` of each version that is new to it."""

    def __init__(self, audience: Audience, wait_ms: int) -> None:
        super().__init__()
        self._audience = audience
        self._wait_ms = wait_ms
        self._version = b""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.write(build("GET", f"/v1/routes?topic={SHARED}"))

    def answered(self, body: bytes) -> None:
        version = body[_VERSION]
        if version != self._version:
            self._version = version
            self._audience.hear()
        target = f"/v1/routes?topic={SHARED}&version={version.decode()}&wait_ms={self._wait_ms}"
        self.transport.write(build("GET", target))


class Audience:
    """All watchers: when each has heard of a change."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heard_ns: list[int] = []
        self._all = asyncio.Event()

    def hear(self) -> None:
        """One of them has."""
        self._heard_ns.append(time.perf_counter_ns())
        if len(self._heard_ns) == self._size:
            self._all.set()

    def begin(self) -> None:
        """A change is to come."""
        self._heard_ns.clear()
        self._all.clear()

    async def all_heard(self) -> list[int]:
        """When each has, once all have."""
        async with asyncio.timeout(KNOWN_S_MAX):
            await self._all.wait()
        return list(self._heard_ns)


class Broker(Client):
    """Sends heartbeats."""

    def __init__(self, number: int, chosen: Any) -> None:
        super().__init__()
        own = [f"topic-{(number + 97 * each) % chosen.topics}" for each in range(chosen.topics_each)]
        self._topics = list(dict.fromkeys([SHARED, *own] if number < chosen.span else own))
        self._name = f"broker-{number}"
        self._address = f"http://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:8080"
        self.queues = 4

    def beat(self) -> None:
        """One of them."""
        topics = [{"topic": each, "queues": self.queues, "permission": "rw"} for each in self._topics]
        names = {"cluster": "default", "address": self._address, "role": "primary", "epoch": 1, "log_id": self._name}
        body = json.dumps({**names, "permission": "rw", "topics": topics}).encode()
        target = f"/v1/brokers/{self._name}/replicas/0"
        self.transport.write(build("PUT", target, body, content_type="application/json"))

    async def go_on(self, delay_s: float, interval_s: float) -> None:
        """Send them, until it is cancelled."""
        await asyncio.sleep(delay_s)
        while True:
            self.beat()
            await asyncio.sleep(interval_s)


async def _connect(url: str, clients: list[Any]) -> None:
    loop, (host, port) = asyncio.get_running_loop(), address_of(url)
    for begin in range(0, len(clients), CONNECTED_AT_ONCE):
        some = clients[begin : begin + CONNECTED_AT_ONCE]
        await asyncio.gather(*(loop.create_connection(lambda each=each: each, host, port) for each in some))


async def _changes(audience: Audience, changing: Broker, count: int, every_s: float) -> list[int]:
    """How long it took each watcher each time, in ns."""
    taken: list[int] = []
    for _ in range(count):
        audience.begin()
        changing.queues = 9 - changing.queues
        began = time.perf_counter_ns()
        changing.beat()
        heard = await audience.all_heard()
        taken += [each - began for each in heard]
        await asyncio.sleep(max(every_s - (time.perf_counter_ns() - began) / 1e9, 0))
    return taken


async def _measure(url: str, pid: int, chosen: Any) -> None:
    settings = {name: value for name, value in vars(chosen).items() if name != "quick"}
    brokers = [Broker(number, chosen) for number in range(chosen.brokers)]
    audience = Audience(chosen.watchers)
    await _connect(url, brokers)
    pace_s = chosen.heartbeat_s / chosen.brokers
    beats = [asyncio.create_task(each.go_on(at * pace_s, chosen.heartbeat_s)) for at, each in enumerate(brokers)]
    await asyncio.sleep(chosen.heartbeat_s)
    say(f"nameserver: {chosen.brokers} brokers are registered")
    await _connect(url, [Watcher(audience, int(chosen.wait_s * 1000)) for _ in range(chosen.watchers)])
    await audience.all_heard()
    say(f"nameserver: {chosen.watchers} watchers wait")
    name = f"name server, {chosen.brokers:,} brokers and {chosen.watchers:,} watchers"
    with Meter(pid) as meter:
        await asyncio.sleep(chosen.seconds)
    _emit_share(f"{name}, nothing changes", meter, settings)
    with Meter(pid) as meter:
        taken = await _changes(audience, brokers[0], chosen.changes, chosen.every_s)
    _emit_share(f"{name}, a change every {chosen.every_s:g} s", meter, settings)
    known = latencies(taken)
    emit(f"{name}, until the last knows a change", known["max_ms"], "ms", settings, **known)
    emit(f"{name}, resident memory", rss_bytes(pid) / 2**20, "MiB", settings)
    for task in beats:
        task.cancel()


def _emit_share(what: str, meter: Meter, settings: dict[str, Any]) -> None:
    spent = meter.spent()
    emit(what, spent["server_cpu_s"] / spent["wall_s"] * 100, "% of one core", settings, **spent)


def main() -> None:
    chosen = sizes(
        __doc__,
        brokers=(1_000, 50),
        topics=(1_000, 50),
        topics_each=(10, 3),
        span=(10, 3),
        watchers=(10_000, 200),
        heartbeat_s=(30.0, 1.0),
        wait_s=(30.0, 1.0),
        seconds=(60.0, 2.0),
        changes=(6, 3),
        every_s=(10.0, 0.5),
    )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with start_nameserver() as server:
        uvloop.run(_measure(server.url, server.pid, chosen))


if __name__ == "__main__":
    main()
