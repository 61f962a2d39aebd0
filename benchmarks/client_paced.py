"""A Producer that sends single messages at a fixed rate, in a process of its own: `python -m benchmarks.client_paced`.

Each is handed over by itself, at its time, and carries that and when it really was. It prints what happened.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

from benchmarks.bodies import random_bodies
from benchmarks.paced import STAMP_BYTES, stamp
from lakemq.client import Producer, aio

BODY_BYTES = 1024
_TAIL = random_bodies(1, BODY_BYTES)[0].hex().encode()[: BODY_BYTES - 2 * STAMP_BYTES]


def _body(due_ns: int) -> bytes:
    return stamp(due_ns) + stamp(time.monotonic_ns()) + _TAIL


def _due(begin_ns: int, number: int, rate: float) -> int:
    return begin_ns + int(number * 1e9 / rate)


def _send(url: str, topic: str, rate: float, count: int) -> None:
    with Producer(url) as producer:
        producer.send(topic, _body(time.monotonic_ns()))
        begin_ns = time.monotonic_ns() + 100_000_000
        for number in range(count - 1):
            due_ns = _due(begin_ns, number, rate)
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            producer.send_async(topic, _body(due_ns))


async def _send_aio(url: str, topic: str, rate: float, count: int) -> None:
    async with aio.Producer(url) as producer:
        await producer.send(topic, _body(time.monotonic_ns()))
        begin_ns = time.monotonic_ns() + 100_000_000
        for number in range(count - 1):
            due_ns = _due(begin_ns, number, rate)
            await asyncio.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            await producer.send_async(topic, _body(due_ns))


def start(url: str, topic: str, rate: float, seconds: float, face: str) -> subprocess.Popen[bytes]:
    """Start the process; it prints its JSON when all is sent. `face`: sync or asyncio."""
    command = [sys.executable, "-m", "benchmarks.client_paced", url, topic, str(rate), str(seconds), face]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("rate", type=float)
    parser.add_argument("seconds", type=float)
    parser.add_argument("face", choices=["sync", "asyncio"])
    chosen = parser.parse_args()
    count = int(chosen.rate * chosen.seconds)
    if chosen.face == "sync":
        _send(chosen.url, chosen.topic, chosen.rate, count)
    else:
        asyncio.run(_send_aio(chosen.url, chosen.topic, chosen.rate, count))
    print(json.dumps({"sent": count}))


if __name__ == "__main__":
    _main()
