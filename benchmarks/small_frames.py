"""What a message costs the gateway that is a frame of its own: `python -m benchmarks.small_frames`.

Messages come one at a time, 200 a second, on one connection. Each line is the gateway's CPU for one of them: stored;
stored, and answered to a long poll; stored as due a second later, delivered and answered; received and acknowledged.
The bare lines are the first two by a protocol that looks at nothing: what the system's calls and the loop cost alone.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from benchmarks.bare import bare
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import Connection, build

BODY_BYTES = 1024
DELAY_MS = 1000


def _post(url: str, topic: str, count: int, per_s: float, **headers: str) -> None:
    body = bytes(BODY_BYTES)
    request = build("POST", f"/v1/topics/{topic}/messages", body, content_type="application/octet-stream", **headers)
    with closing(Connection(url)) as connection:
        due = time.monotonic()
        for _ in range(count):
            due += 1 / per_s
            time.sleep(max(due - time.monotonic(), 0))
            connection.exchange(request)


def _pull(url: str, topic: str, count: int) -> None:
    """Take so many messages by long polls."""
    with closing(Connection(url)) as connection:
        offset = 0
        while offset < count:
            target = f"/v1/topics/{topic}/queues/0/messages?offset={offset}&max=32&wait_ms=20000"
            offset = json.loads(bytes(connection.exchange(build("GET", target)).body))["next_offset"]


def _receive(url: str, topic: str, count: int) -> None:
    """Receive so many messages, and acknowledge each."""
    wanted = {"topic": topic, "max": 32, "wait_ms": 20_000, "invisible_ms": 60_000}
    receive = build("POST", "/v1/groups/g/receive", json.dumps(wanted).encode(), content_type="application/json")
    with closing(Connection(url)) as connection:
        while count > 0:
            messages = json.loads(bytes(connection.exchange(receive).body))["messages"]
            content = json.dumps({"receipts": [message["receipt"] for message in messages]}).encode()
            connection.exchange(build("POST", "/v1/groups/g/acks", content, content_type="application/json"))
            count -= len(messages)


@contextlib.contextmanager
def _beside(work: Callable[[], None] | None) -> Generator[None]:
    """Within it somebody does that in a thread, to its end."""
    thread = threading.Thread(target=work, daemon=True) if work else None
    if thread is not None:
        thread.start()
    yield
    if thread is not None:
        thread.join(60)


def _measure(url: str, pid: int, what: str, taker: Callable[[str, str, int], None] | None, chosen: Any) -> None:
    count = int(chosen.rate * chosen.seconds)
    headers = {"lakemq_delay_ms": str(DELAY_MS)} if "delayed" in what else {}
    topic = f"t{abs(hash(what))}"
    if "bare" not in what:
        make_topic(url, topic, 1)
    with Meter(pid) as meter, _beside(None if taker is None else lambda: taker(url, topic, count)):
        _post(url, topic, count, chosen.rate, **headers)
    spent = meter.spent()
    settings = {"rate": chosen.rate, "seconds": chosen.seconds, "body_bytes": BODY_BYTES}
    emit(what, spent["server_cpu_s"] / count * 1000, "ms of the gateway's CPU a message", settings, **spent)


def main() -> None:
    chosen = sizes(__doc__, seconds=(20, 1), rate=(200, 100), rounds=(1, 1))
    with scratch() as folder, gateway(folder) as process, bare() as (bare_url, bare_pid):
        make_topic(process.url, "warm", 1)
        _post(process.url, "warm", 200, 400)
        for number in range(chosen.rounds):
            say(f"small frames: round {number + 1}")
            _measure(bare_url, bare_pid, f"bare: stored, {number}", None, chosen)
            _measure(bare_url, bare_pid, f"bare: stored and delivered, {number}", _pull, chosen)
            _measure(process.url, process.pid, f"stored, {number}", None, chosen)
            _measure(process.url, process.pid, f"stored and delivered, {number}", _pull, chosen)
            _measure(process.url, process.pid, f"delayed and delivered, {number}", _pull, chosen)
            _measure(process.url, process.pid, f"received and acknowledged, {number}", _receive, chosen)


if __name__ == "__main__":
    main()
