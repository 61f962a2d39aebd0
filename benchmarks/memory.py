"""The gateway's resident memory: under steady load, and with many long polls. `python -m benchmarks.memory`.

And what a segment's index leaves behind, in a process without a gateway: as many frames as come in an hour of 200
delayed messages a second, written to its file every 12,000 frames, as every half minute, and begun anew after a
million. `--minutes 0`: that alone.

The load: single POSTs at a rate with a long poll on each of four queues, and each second an Arrow
request of 1,000 messages, pulled again in Arrow. The slope is a line through what was sampled after
the first sixth, when caches are full.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import socket
import statistics
import threading
import time
from collections import deque
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from benchmarks import paced, receiver
from benchmarks.arrow_produce import requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter, rss_bytes
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ARROW, Connection, build, dial
from lakemq.gateway.process.memory import bound_free_memory
from lakemq.storage.disk.files import Files
from lakemq.storage.segment.segment_index import SegmentIndex

MIB = 2**20
QUEUES = 4


class Batches:
    """An Arrow request a call, and a pull of what it stored."""

    def __init__(self, url: str) -> None:
        make_topic(url, "arrow", 1)
        self._connection = Connection(url)
        self._requests = requests_of(random_bodies, 1024)
        self._offset = 0
        self._count = 0

    def step(self) -> None:
        """Produce and pull once."""
        self._connection.exchange(self._requests[self._count % len(self._requests)])
        self._count += 1
        target = f"/v1/topics/arrow/queues/0/messages?max=10000&offset={self._offset}"
        answer = self._connection.exchange(build("GET", target, accept=ARROW))
        self._offset = int(answer.header("lakemq-next-offset"))


def _sample(pid: int, batches: Batches, seconds: float, interval_s: float) -> list[tuple[float, float]]:
    """(seconds, MiB), while the batches go on."""
    samples: list[tuple[float, float]] = []
    begin = time.monotonic()
    second = 0
    while (now := time.monotonic() - begin) < seconds:
        if now >= len(samples) * interval_s:
            samples.append((now, rss_bytes(pid) / MIB))
        batches.step()
        second += 1
        time.sleep(max(begin + second - time.monotonic(), 0))
    samples.append((time.monotonic() - begin, rss_bytes(pid) / MIB))
    return samples


def _steady(chosen: Any) -> None:
    seconds = chosen.minutes * 60
    with scratch() as folder, gateway(folder) as process:
        say(f"memory: steady load for {chosen.minutes} minutes")
        before = rss_bytes(process.pid) / MIB
        make_topic(process.url, "paced", QUEUES)
        batches = Batches(process.url)
        with Meter(process.pid) as meter:
            taker = receiver.start(process.url, "paced", QUEUES, 3, "--count-only")
            sender = paced.start(process.url, "paced", chosen.rate, seconds)
            samples = _sample(process.pid, batches, seconds, chosen.interval_seconds)
            sent = json.loads(sender.communicate(timeout=60)[0])
            received = json.loads(taker.communicate(timeout=60)[0])
        steady = [sample for sample in samples if sample[0] >= seconds / 6]
        slope = statistics.linear_regression([t for t, _ in steady], [mib for _, mib in steady]).slope * 3600
        sizes_mib = [mib for _, mib in samples]
        emit(
            "memory, slope under steady load",
            slope,
            "MiB/h",
            {"minutes": chosen.minutes, "rate": chosen.rate, "arrow_requests_per_s": 1},
            begin_mib=round(before, 1),
            steady_first_mib=round(steady[0][1], 1),
            last_mib=round(sizes_mib[-1], 1),
            most_mib=round(max(sizes_mib), 1),
            samples_mib=[round(mib) for mib in sizes_mib[:: max(len(sizes_mib) // 60, 1)]],
            sent=sent["sent"],
            errors=sent["errors"],
            received=received["received"],
            **meter.spent(),
        )


def _waiters(count: int, wait_s: float) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 200, hard), hard))
    with scratch() as folder, gateway(folder) as process:
        say(f"memory: {count} long polls")
        make_topic(process.url, "waited", QUEUES)
        before = rss_bytes(process.pid) / MIB
        waiting: list[socket.socket] = []
        with Meter(process.pid) as meter:
            for number in range(count):
                connection = dial(process.url)
                target = f"/v1/topics/waited/queues/{number % QUEUES}/messages?offset=0&wait_ms=60000"
                connection.sendall(build("GET", target))
                waiting.append(connection)
            time.sleep(wait_s)
            held = rss_bytes(process.pid) / MIB
            answered = _wake(process.url, waiting)
        emit(
            "memory, long polls",
            held,
            "MiB",
            {"long_polls": count, "queues": QUEUES},
            before_mib=round(before, 1),
            answered=answered,
            after_mib=round(rss_bytes(process.pid) / MIB, 1),
            **meter.spent(),
        )
        for connection in waiting:
            connection.close()


def _wake(url: str, waiting: list[socket.socket]) -> int:
    """A message in each queue; how many long polls answered with one: all, when all were waiting."""
    connection = Connection(url)
    for queue_id in range(QUEUES):
        connection.exchange(build("POST", "/v1/topics/waited/messages", b"wake", lakemq_queue_id=str(queue_id)))
    connection.close()
    answered = 0
    for each in waiting:
        each.settimeout(10)
        answer = b""
        while b'"messages":[' not in answer and (piece := each.recv(1 << 16)):
            answer += piece
        answered += b'"found"' in answer
    return answered


class IndexLife:
    """An index as the gateway has it, on and on; and small objects that come and go, as many as its cache holds."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "index"
        self._files = Files()
        self._recent: deque[list[bytes]] = deque(maxlen=6_500)
        self._index = SegmentIndex(0)
        self._position = 0

    def add(self) -> None:
        """A frame of one message."""
        index, number = self._index, self._position
        index.positions.append(number)
        index.offsets.append(index.covered_bytes)
        index.times.append(number)
        key = ("waits", 0) if number % 2 else ("soak", number // 2 % QUEUES)
        next_offset = index.queues[key].next_offset if key in index.queues else 0
        index.add_run(key, next_offset, 1, index.covered_bytes)
        index.covered_bytes += 1_100
        self._position = index.end_position = number + 1
        self._recent.append([bytes(1_100), *(bytes(60) for _ in range(10))])

    def write(self) -> None:
        """The index to its file, in a thread."""
        dump = self._index.freeze()
        thread = threading.Thread(target=lambda: self._files.replace(self._path, dump({"topics": []}), durable=False))
        thread.start()
        thread.join()

    def roll(self) -> None:
        """Begin the next segment's."""
        self.write()
        self._index = SegmentIndex(self._position)

    @property
    def mib(self) -> float:
        """What the index itself takes."""
        return self._index.memory_bytes / MIB


def _live(frames: int, segment_frames: int, bounded: bool, told: Pipe) -> None:
    """In a process of its own: `(MiB of the process, MiB of the index)` 24 times on the way."""
    if bounded:
        bound_free_memory()
    with scratch() as folder:
        life = IndexLife(folder)
        samples: list[tuple[int, int]] = []
        for number in range(1, frames + 1):
            life.add()
            if number % 12_000 == 0:
                life.write()
            if number % segment_frames == 0:
                life.roll()
            if number % (frames // 24) == 0:
                samples.append((round(rss_bytes(os.getpid()) / MIB), round(life.mib)))
    told.send(samples)


def _index_life(chosen: Any) -> None:
    spawning = multiprocessing.get_context("spawn")
    for bounded in (True, False):
        say(f"memory: {chosen.index_frames} frames of an index, free memory {'bounded' if bounded else 'as it is'}")
        here, there = spawning.Pipe(duplex=False)
        arguments = int(chosen.index_frames), int(chosen.segment_frames), bounded, there
        process = spawning.Process(target=_live, args=arguments)
        process.start()
        samples = here.recv()
        process.join()
        settings = {"frames": chosen.index_frames, "segment_frames": chosen.segment_frames, "bounded": bounded}
        beside = [mib - index for mib, index in samples]
        emit("memory, beside an index that is written", beside[-1] - beside[0], "MiB", settings, mib_of_index=samples)


def main() -> None:
    chosen = sizes(
        __doc__,
        minutes=(60.0, 0.05),
        rate=(1000, 100),
        interval_seconds=(10.0, 0.5),
        long_polls=(5000, 100),
        wait_seconds=(5.0, 1.0),
        index_frames=(1_440_000, 24_000),
        segment_frames=(1_000_000, 10_000),
    )
    _index_life(chosen)
    if not chosen.minutes:
        return
    _waiters(chosen.long_polls, chosen.wait_seconds)
    _steady(chosen)


if __name__ == "__main__":
    main()
