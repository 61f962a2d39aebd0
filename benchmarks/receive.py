"""Receive and acknowledge over plain HTTP, 1 KiB, 32 a call: `python -m benchmarks.receive`.

Each connection receives and acknowledges in turn until the topic is empty; then every message must
have been received once, and nothing be out. With PEERS set, ElasticMQ (receive and delete, 10 a call,
which is its most) and RocketMQ's gRPC proxy consume as many messages in the same run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.bodies import arrow_content, random_bodies
from benchmarks.broker import gateway, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.harness import script
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import ARROW, Connection, ask, build

BODY_BYTES = 1024
CONNECTIONS = (1, 4, 16)
TOPIC, GROUP = "received", "workers"
PRODUCED = 5_000
"""Messages a request, when they are made."""
JSON = "application/json"
_RECEIPT = re.compile(rb'"receipt":"([^"]+)"')
_MESSAGE = re.compile(rb'"message_id":"([^"]+)"')


def _produce(url: str, count: int) -> None:
    make_topic(url, TOPIC, 4)
    connection = Connection(url)
    for first in range(0, count, PRODUCED):
        bodies = [body.hex()[:BODY_BYTES].encode() for body in random_bodies(min(PRODUCED, count - first), BODY_BYTES)]
        content = arrow_content({"body": pa.array(bodies, pa.binary())})
        connection.exchange(build("POST", f"/v1/topics/{TOPIC}/messages", content, content_type=ARROW))
    connection.close()
    wait_flushed(url)


class _Worker:
    """One connection's work, and what it took."""

    def __init__(self, url: str, max_messages: int) -> None:
        self._url = url
        content = {"topic": TOPIC, "max": max_messages, "wait_ms": 0, "invisible_ms": 600_000}
        self._receive = build("POST", f"/v1/groups/{GROUP}/receive", orjson.dumps(content), content_type=JSON)
        self.received_ns: list[int] = []
        self.acked_ns: list[int] = []
        self.ids: list[bytes] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Receive and acknowledge until there is nothing left."""
        connection = Connection(self._url)
        try:
            while self._take_some(connection):
                pass
        except BaseException as error:  # noqa: BLE001 (raised by the main thread)
            self.failure = error
        finally:
            connection.close()

    def _take_some(self, connection: Connection) -> bool:
        begin = time.monotonic_ns()
        body = bytes(connection.exchange(self._receive).body)
        received = time.monotonic_ns()
        receipts = _RECEIPT.findall(body)
        if not receipts:
            return False
        self.ids += _MESSAGE.findall(body)
        content = b'{"receipts":["%b"]}' % b'","'.join(receipts)
        request = build("POST", f"/v1/groups/{GROUP}/acks", content, content_type=JSON)
        asked = time.monotonic_ns()
        answer = bytes(connection.exchange(request).body)
        self.received_ns.append(received - begin)
        self.acked_ns.append(time.monotonic_ns() - asked)
        if answer.count(b'"status":"ok"') != len(receipts):
            raise RuntimeError(f"not all were acknowledged: {answer[:300]!r}")
        return True


def _measure(connections: int, chosen: Any) -> None:
    with scratch() as folder, gateway(folder) as process:
        _produce(process.url, chosen.messages)
        workers = [_Worker(process.url, chosen.batch) for _ in range(connections)]
        with Meter(process.pid) as meter:
            begin = time.monotonic()
            _run([worker.run for worker in workers])
            seconds = time.monotonic() - begin
        for worker in workers:
            if worker.failure is not None:
                raise worker.failure
        ids = [message_id for worker in workers for message_id in worker.ids]
        if len(ids) != chosen.messages or len(set(ids)) != chosen.messages:
            raise RuntimeError(f"{len(ids)} messages, {len(set(ids))} of them different, for {chosen.messages}")
        if (out := ask(process.url, "GET", "/v1/routing")["receive"]["out"]) != 0:
            raise RuntimeError(f"{out} messages are out at the end")
    settings = {
        "messages": chosen.messages,
        "batch": chosen.batch,
        "connections": connections,
        "body_bytes": BODY_BYTES,
    }
    times = latencies([taken for worker in workers for taken in worker.received_ns])
    times |= latencies([taken for worker in workers for taken in worker.acked_ns], "ack_")
    what = f"receive and acknowledge, HTTP, {chosen.batch} a call, {connections} connections"
    emit(what, len(ids) / seconds, "messages/s", settings, **times, **meter.spent())


def _run(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _measure_peer(peer: str, messages: int) -> None:
    """What a peer's own client consumes in its harness: its lines, with names as ours have."""
    bench = script()
    if bench is None:
        return
    say(f"receive: {peer}")
    environment = os.environ | {"ONLY": "consume", "N": str(messages), "WARM": "5"}
    if subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        environment["NETNS"] = "0"
    done = subprocess.run(
        ["bash", str(bench), peer, "async"], env=environment, stdout=subprocess.PIPE, check=False, timeout=600
    )
    for line in done.stdout.splitlines():
        row = json.loads(line) if line.startswith(b"{") else {}
        if row.get("measure") == "consume":
            emit(f"{peer}, consume", row.pop("msgs_per_s", float("nan")), "messages/s", row)


def main() -> None:
    chosen = sizes(__doc__, messages=(300_000, 5_000), batch=(32, 32))
    for connections in CONNECTIONS:
        _measure(connections, chosen)
    for peer in ("elasticmq", "rocketmq-proxy"):
        _measure_peer(peer, chosen.messages)


if __name__ == "__main__":
    main()
