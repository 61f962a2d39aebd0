"""Transactions on kept connections, in a process of its own: `python -m benchmarks.transact`.

Each transaction is the POST of a half and, with its answer, the POST of the commit on the same
connection. Without a rate every connection begins the next when it has the answer; with one each
transaction has its time to begin, and its waiting counts. It prints what happened after the warm-up
as JSON. Like `closed`, it may be the limit itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from typing import cast

import orjson
import uvloop

from benchmarks.paced import STAMP_BYTES, stamp, stamped_body
from benchmarks.results import latencies
from benchmarks.wire import address_of, build

GROUP = "bench"
_COMMIT = json.dumps({"producer_group": GROUP, "resolution": "commit"}).encode()
_ID = b'"transaction_id":"'
_SLOWEST_S = 10


class Load:
    """What all connections share: the requests, the window that counts, the answers in it."""

    def __init__(self, topic: str, warm_s: float, measured_s: float, numbers: bool) -> None:
        half = build(
            "POST",
            f"/v1/topics/{topic}/transactions?producer_group={GROUP}",
            stamped_body(0),
            content_type="text/plain",
        )
        place = len(half) - len(stamped_body(0))
        self._before, self._after = half[:place], half[place + STAMP_BYTES :]
        commit = build("POST", "/v1/transactions/ID", _COMMIT, content_type="application/json")
        self._commit_before, self._commit_after = commit.split(b"ID", 1)
        now = time.monotonic_ns()
        self.begin_ns = now + int(warm_s * 1e9)
        self.end_ns = self.begin_ns + int(measured_s * 1e9)
        self.latencies_ns: list[int] = []
        self.half_ns: list[int] = []
        self.commits_sent: list[tuple[int, int]] | None = [] if numbers else None
        self.begun = self.committed = self.errors = 0
        self.paced = self.ended = False
        self.due: deque[int] = deque()
        self.free: deque[Client] = deque()

    def next_half(self) -> tuple[int, bytes]:
        """A half's number and request."""
        self.begun += 1
        return self.begun, self._before + stamp(self.begun) + self._after

    def commit(self, transaction_id: bytes) -> bytes:
        """The request that commits it."""
        return self._commit_before + transaction_id + self._commit_after

    def send_due(self) -> None:
        """Begin what is due on connections that are free."""
        while self.due and self.free:
            self.free.popleft().begin(self.due.popleft())


class Client(asyncio.Protocol):
    """One connection: a half, its commit, the next half."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self._number = 0
        self._id: bytes | None = None
        self._begin_ns = self._half_ns = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        if self._load.paced:
            self._load.free.append(self)
        else:
            self.begin(time.monotonic_ns())

    def begin(self, begin_ns: int) -> None:
        """Begin a transaction that was to begin then."""
        self._begin_ns, self._id = begin_ns, None
        self._number, request = self._load.next_half()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        # Both answers are objects that end so, and nowhere else: a half's `{"transactions":[{…}]}`.
        if not received.endswith(b"}]}" if self._id is None else b"}"):
            if not received.startswith(b"HTTP/1.1 2") and received.endswith(b"}"):
                self._fail()
            return
        self._received = b""
        if not received.startswith(b"HTTP/1.1 2"):
            self._fail()
        elif self._id is None:
            self._resolve(received)
        else:
            self._finish()

    def _resolve(self, received: bytes) -> None:
        begin = received.index(_ID) + len(_ID)
        self._id = received[begin : received.index(b'"', begin)]
        now = self._half_ns = time.monotonic_ns()
        load = self._load
        if load.commits_sent is not None and load.begin_ns <= now <= load.end_ns:
            load.commits_sent.append((self._number, now))
        self._transport.write(load.commit(self._id))

    def _finish(self) -> None:
        now = time.monotonic_ns()
        load = self._load
        load.committed += 1
        if load.begin_ns <= now <= load.end_ns:
            load.latencies_ns.append(now - self._begin_ns)
            load.half_ns.append(self._half_ns - self._begin_ns)
        self._go_on(now)

    def _fail(self) -> None:
        self._received = b""
        self._load.errors += 1
        self._go_on(time.monotonic_ns())

    def _go_on(self, now: int) -> None:
        load = self._load
        if load.paced and (load.due or not load.ended):
            load.free.append(self)
            load.send_due()
        elif not load.paced and now < load.end_ns:
            self.begin(now)
        else:
            self._transport.close()

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def _pace(load: Load, rate: float) -> None:
    """Make transactions due at the rate, until the end."""
    first = time.monotonic_ns()
    number = 0
    while (due := first + int(number * 1e9 / rate)) < load.end_ns:
        left = due - time.monotonic_ns()
        if left > 0:
            await asyncio.sleep(left / 1e9)
        load.due.append(due)
        load.send_due()
        number += 1
    load.ended = True
    for client in load.free:
        client.close()


async def _run(url: str, connections: int, rate: float, load: Load) -> None:
    loop = asyncio.get_running_loop()
    host, port = address_of(url)
    load.paced = rate > 0
    clients = [(await loop.create_connection(lambda: Client(load), host, port))[1] for _ in range(connections)]
    if load.paced:
        await _pace(load, rate)
    left_s = (load.end_ns - time.monotonic_ns()) / 1e9
    await asyncio.wait([client.done for client in clients], timeout=max(left_s, 0) + _SLOWEST_S)


def start(
    url: str, topic: str, connections: int, warm_s: float, measured_s: float, rate: float = 0, numbers: bool = False
) -> subprocess.Popen[bytes]:
    """Start the process; it prints its JSON when it is done. `numbers`: in it also when each commit
    was sent."""
    command = [sys.executable, "-m", "benchmarks.transact", url, topic, str(connections), str(warm_s), str(measured_s)]
    return subprocess.Popen(
        [*command, "--rate", str(rate), *(["--numbers"] if numbers else [])], stdout=subprocess.PIPE
    )


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("warm_s", type=float)
    parser.add_argument("measured_s", type=float)
    parser.add_argument("--rate", type=float, default=0, help="transactions/s; 0: as fast as it goes")
    parser.add_argument("--numbers", action="store_true", help="print when each commit was sent")
    chosen = parser.parse_args()
    load = Load(chosen.topic, chosen.warm_s, chosen.measured_s, chosen.numbers)
    uvloop.run(_run(chosen.url, chosen.connections, chosen.rate, load))
    count = len(load.latencies_ns)
    answer = {"transactions": count, "transactions_per_s": round(count / chosen.measured_s, 1)}
    answer |= {"begun": load.begun, "committed": load.committed, "errors": load.errors}
    answer |= {**latencies(load.latencies_ns), **latencies(load.half_ns, "half_")}
    more = {} if load.commits_sent is None else {"commits_sent": load.commits_sent}
    print(orjson.dumps({**answer, **more}).decode())


if __name__ == "__main__":
    _main()
