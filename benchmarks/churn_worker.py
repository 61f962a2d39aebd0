"""Consumers that join and leave at random, in a process of their own: `python -m benchmarks.churn_worker`.

Each lives for a random while, leaves, and joins again a little later, until the process is told to end
by the end of its input. Every message that is processed is a line of the output file, written before
the listener returns, so that it is there whatever happens to the process then:
`{group} {key} {number} {monotonic time in ns} {client id}`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from lakemq.client import MessageView, Unreachable, aio

PAUSE_S = 1.0
ORDERLY, CONCURRENT = "orderly", "concurrent"


class Consumer:
    """One of the consumers. `name` says which, in which process."""

    def __init__(self, url: str, topic: str, name: str, mean_s: float, out: int) -> None:
        self._url = url
        self._topic = topic
        self._name = name
        self._group = ORDERLY if hash_of(name) % 2 else CONCURRENT
        self._random = random.Random(name)
        self._mean_s = mean_s
        self._out = out
        self.lives = 0

    async def live(self, end: asyncio.Event) -> None:
        """Join, consume, leave, again and again."""
        await _wait(end, self._random.uniform(0, self._mean_s / 2))
        while not end.is_set():
            self.lives += 1
            client_id = f"{self._name}.{self.lives}"
            consumer = aio.PushConsumer(
                self._group,
                self._listener(client_id),
                brokers=self._url,
                client_id=client_id,
                orderly=self._group == ORDERLY,
                consume_from="first",
                concurrency=4,
            )
            await consumer.subscribe(self._topic)
            try:
                async with consumer:
                    await _wait(end, self._random.expovariate(1 / self._mean_s))
            except Unreachable as error:  # too many others joined just then: this one tries again
                print(f"{client_id}: {error}", file=sys.stderr)
            await _wait(end, self._random.uniform(0, PAUSE_S))

    def _listener(self, client_id: str):
        async def listener(message: MessageView) -> None:
            key, _, number = message.text().partition(":")
            line = f"{self._group} {key} {number} {time.monotonic_ns()} {client_id}\n"
            os.write(self._out, line.encode())

        return listener


def hash_of(name: str) -> int:
    """The number at the name's end."""
    return int(name.rpartition("-")[2])


async def _wait(end: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await end.wait()


async def _run(url: str, topic: str, worker: str, count: int, mean_s: float, out: int) -> int:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), end.set)  # its end, as nothing is ever written there
    consumers = [Consumer(url, topic, f"{worker}-{number}", mean_s, out) for number in range(count)]
    await asyncio.gather(*(consumer.live(end) for consumer in consumers))
    return sum(consumer.lives for consumer in consumers)


def start(url: str, topic: str, worker: str, count: int, mean_s: float, out: Path) -> subprocess.Popen[str]:
    """Start the process; end its input to end it. It prints how often its consumers joined."""
    command = [sys.executable, "-m", "benchmarks.churn_worker", url, topic, worker, str(count), str(mean_s), str(out)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("url", "topic", "worker"):
        parser.add_argument(name)
    parser.add_argument("count", type=int)
    parser.add_argument("mean_s", type=float)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    out = os.open(chosen.out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    print(asyncio.run(_run(chosen.url, chosen.topic, chosen.worker, chosen.count, chosen.mean_s, out)))


if __name__ == "__main__":
    _main()
