"""PushConsumer: messages a second, and from send to listener by both SDKs. `python -m benchmarks.client_consume`.

Rate: a topic of four queues that holds 1 KiB messages is consumed from its first, in this process, with
the defaults. The listener counts bytes, so it has looked at each body. From the first call of the
listener to the last. Latency: a Producer and a PushConsumer, a process each, 1,000 messages a second,
each sent by itself at its time, which it carries; the gateway alone, and with all jobs beside it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks import client_paced, paced
from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.jobs import all_jobs
from benchmarks.options import sizes
from benchmarks.paced import STAMP_BYTES
from benchmarks.results import emit, latencies, say
from lakemq.client import MessageView, PullConsumer, PushConsumer, aio

QUEUES = 4
BODY_BYTES = 1024
GIVE_UP_S = 300


class Counter:
    """Counts messages and the bytes of their bodies; knows when all have come."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._lock = threading.Lock()
        self.count = self.bytes = 0
        self.first_s = self.last_s = 0.0
        self.done = threading.Event()

    def one(self, message: MessageView) -> None:
        """A listener of single messages."""
        self._add(1, len(message.body))

    def many(self, messages: list[MessageView]) -> None:
        """A listener of batches."""
        self._add(len(messages), sum([len(message.body) for message in messages]))

    def _add(self, count: int, size: int) -> None:
        with self._lock:
            if not self.count:
                self.first_s = time.monotonic()
            self.count += count
            self.bytes += size
            if self.count >= self._expected:
                self.last_s = time.monotonic()
                self.done.set()


def _push(url: str, group: str, counter: Counter, batch: bool) -> None:
    if batch:
        made = PushConsumer(group, batch_listener=counter.many, batch_size=256, brokers=url, consume_from="first")
    else:
        made = PushConsumer(group, counter.one, brokers=url, consume_from="first")
    with made as consumer:
        consumer.subscribe("arrow")
        if not counter.done.wait(GIVE_UP_S):
            raise TimeoutError(f"{counter.count} messages came")


def _push_aio(url: str, group: str, counter: Counter) -> None:
    async def listener(message: MessageView) -> None:
        counter.one(message)

    async def run() -> None:
        async with aio.PushConsumer(group, listener, brokers=url, consume_from="first") as consumer:
            await consumer.subscribe("arrow")
            await asyncio.to_thread(counter.done.wait, GIVE_UP_S)

    asyncio.run(run())


def _pull(url: str, group: str, counter: Counter) -> None:
    with PullConsumer(group, brokers=url, consume_from="first") as consumer:
        consumer.subscribe("arrow")
        while not counter.done.is_set():
            counter.many(list(consumer.poll(10_000)))


def _rates(chosen: Any) -> None:
    faces: list[tuple[str, Callable[[str, str, Counter], None]]] = [
        ("PushConsumer", lambda url, group, counter: _push(url, group, counter, batch=False)),
        ("PushConsumer, batch listener", lambda url, group, counter: _push(url, group, counter, batch=True)),
        ("aio.PushConsumer", _push_aio),
        ("PullConsumer, each message", _pull),
    ]
    with scratch() as folder, gateway(folder) as process:
        make_topic(process.url, "arrow", QUEUES)
        produce(process.url, requests_of(random_bodies, BODY_BYTES), chosen.messages, 2)
        wait_flushed(process.url)
        for run in range(chosen.runs):
            for name, consume in faces:
                counter = Counter(chosen.messages // 2000 * 2000)
                with Meter(process.pid) as meter:
                    consume(process.url, f"{name.split(',')[0].replace('.', '-')}-{len(name)}-{run}", counter)
                rate = counter.count / (counter.last_s - counter.first_s)
                settings = {"messages": counter.count, "queues": QUEUES, "body_bytes": BODY_BYTES, "run": run}
                emit(f"client consume, {name}", rate, "messages/s", settings, **meter.spent())


class Stamps:
    """How long each message took from when it was to be sent, and from when it was handed to the
    producer, until its listener was called."""

    def __init__(self) -> None:
        self.due_ns: list[int] = []
        self.sent_ns: list[int] = []

    def add(self, message: MessageView) -> None:
        """A listener."""
        now = time.monotonic_ns()
        body = message.body
        self.due_ns.append(now - int(body[1:STAMP_BYTES]))
        self.sent_ns.append(now - int(body[STAMP_BYTES + 1 : 2 * STAMP_BYTES]))


def _latency(chosen: Any) -> None:
    for face in ("sync", "asyncio"):
        with scratch() as folder, gateway(folder) as process:
            _from_send_to_listener(process.url, [process.pid], chosen, face, f"client send to listener, {face}")
    with scratch() as folder, gateway(folder / "data") as process, all_jobs(process.url, folder / "lake") as jobs:
        make_topic(process.url, "warm", QUEUES)
        paced.start(process.url, "warm", chosen.rate, chosen.warm_seconds).communicate(timeout=chosen.warm_seconds + 60)
        for face in ("sync", "asyncio"):
            what = f"client send to listener, {face}, all jobs"
            _from_send_to_listener(process.url, [process.pid, jobs.pid], chosen, face, what)
        jobs.check()


def _from_send_to_listener(url: str, pids: list[int], chosen: Any, face: str, what: str) -> None:
    topic = f"paced-{face}"
    make_topic(url, topic, QUEUES)
    stamps = Stamps()
    with Meter(*pids) as meter:
        sent = _consume_paced(url, topic, stamps, chosen, face)
    skipped = int(chosen.rate * chosen.seconds / 6)
    due = latencies(stamps.due_ns[skipped:])
    settings = {"rate": chosen.rate, "seconds": chosen.seconds, "queues": QUEUES, "body_bytes": BODY_BYTES}
    more = {**due, **latencies(stamps.sent_ns[skipped:], "after_send_"), **sent, **meter.spent()}
    emit(what, due["p50_ms"], "ms", settings, received=len(stamps.due_ns), **more)


def _consume_paced(url: str, topic: str, stamps: Stamps, chosen: Any, face: str) -> dict[str, Any]:
    """Consume what a process of its own sends; what that says."""

    def send() -> dict[str, Any]:
        answer = json.loads(client_paced.start(url, topic, chosen.rate, chosen.seconds, face).communicate()[0])
        end = time.monotonic() + 10
        while len(stamps.due_ns) < answer["sent"] and time.monotonic() < end:
            time.sleep(0.05)
        return answer

    async def run() -> dict[str, Any]:
        async def listener(message: MessageView) -> None:
            stamps.add(message)

        async with aio.PushConsumer(topic, listener, brokers=url) as consumer:
            await consumer.subscribe(topic)
            return await asyncio.to_thread(send)

    if face == "asyncio":
        return asyncio.run(run())
    with PushConsumer(topic, stamps.add, brokers=url) as consumer:
        consumer.subscribe(topic)
        return send()


def main() -> None:
    chosen = sizes(
        __doc__, messages=(1_000_000, 8_000), runs=(3, 1), seconds=(60, 2), rate=(1000, 200), warm_seconds=(30, 2)
    )
    say("client consume: rates")
    _rates(chosen)
    say("client consume: latency")
    _latency(chosen)


if __name__ == "__main__":
    main()
