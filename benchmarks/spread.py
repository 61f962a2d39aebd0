"""What a broker uses for a message beside another one, against a broker alone: `python -m benchmarks.spread`.

The Python client's `send_async`, and `send` from threads, by turns through two lone brokers, with a producer for each,
and through two brokers that a name server knows, with two producers that go round both: each message is named there, as
both might store it. Then the same with `duplicates_allowed=False`, without names. Counted is the processor time of
brokers alone, until all is on their disks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit
from lakemq.client import Producer
from lakemq.testing import GatewayProcess, start_nameserver

TOPIC = "bench"
QUEUES = 4
DISTINCT = 1_000
THREADS = 16
"""Of one producer."""


class Way(NamedTuple):
    """One of those that are compared."""

    name: str
    brokers: list[GatewayProcess]
    options: list[dict[str, Any]]
    """Of each producer."""


def _in_batches(producer: Producer, bodies: list[bytes], count: int) -> None:
    for number in range(count):
        producer.send_async(TOPIC, bodies[number % len(bodies)])
    producer.flush()


def _one_by_one(producer: Producer, bodies: list[bytes], count: int) -> None:
    def send() -> None:
        for number in range(count // THREADS):
            producer.send(TOPIC, bodies[number % len(bodies)])

    with ThreadPoolExecutor(THREADS) as threads:
        for each in [threads.submit(send) for _ in range(THREADS)]:
            each.result()


Produce = Callable[[Producer, list[bytes], int], None]
KINDS: dict[str, Produce] = {"send_async": _in_batches, "send": _one_by_one}


def _produce(kind: str, producers: list[Producer], bodies: list[bytes], count: int) -> None:
    """With all of them at once, each its part, until all is on disk."""
    with ThreadPoolExecutor(len(producers)) as threads:
        for each in [threads.submit(KINDS[kind], each, bodies, count // len(producers)) for each in producers]:
            each.result()


def _measure(way: Way, kind: str, bodies: list[bytes], count: int) -> float:
    """Broker CPU in microseconds a message."""
    with contextlib.ExitStack() as stack:
        producers = [stack.enter_context(Producer(**each)) for each in way.options]
        _produce(kind, producers, bodies, max(count // 10, THREADS * len(producers)))  # warm
        _wait_flushed(way)
        with Meter(*(each.pid for each in way.brokers)) as meter:
            begin = time.monotonic()
            _produce(kind, producers, bodies, count)
            taken_s = time.monotonic() - begin
            _wait_flushed(way)
    spent = meter.spent()
    each_us = spent["server_cpu_s"] / count * 1e6
    settings = {"messages": count, "body_bytes": len(bodies[0]), "brokers": len(way.brokers)}
    emit(
        f"broker CPU a message of {kind}, {way.name}", each_us, "us", settings, messages_per_s=count / taken_s, **spent
    )
    return each_us


def _wait_flushed(way: Way) -> None:
    for each in way.brokers:
        wait_flushed(each.url)


def _compare(ways: tuple[Way, ...], kind: str, bodies: list[bytes], count: int, rounds: int) -> None:
    found: dict[str, list[float]] = {each.name: [] for each in ways}
    for turn in range(rounds):
        first = turn % len(ways)  # who comes later finds the disk busy with what came before
        for each in (*ways[first:], *ways[:first]):
            found[each.name].append(_measure(each, kind, bodies, count))
    alone, *others = ways
    for each in others:
        ratio = median([it / lone for it, lone in zip(found[each.name], found[alone.name], strict=True)])
        emit(f"broker CPU a message of {kind}, {each.name} against {alone.name}", ratio, "", {"rounds": rounds})


class _Fleet(NamedTuple):
    brokers: list[GatewayProcess]
    options: list[dict[str, Any]]


def _known(stack: contextlib.ExitStack, folder: Path) -> _Fleet:
    """Two brokers that a name server of their own knows, and what two producers need to find both."""
    names = start_nameserver()
    stack.callback(names.stop)
    brokers = [
        stack.enter_context(gateway(folder / name, broker__name=name, fleet__nameservers=names.url))
        for name in ("c", "d")
    ]
    for each in brokers:
        make_topic(each.url, TOPIC, QUEUES)
    return _Fleet(brokers, [{"nameservers": names.url}] * 2)


def main() -> None:
    chosen = sizes(__doc__, messages=(600_000, 2_000), single=(64_000, 320), body_bytes=(1024, 1024), rounds=(6, 1))
    bodies = random_bodies(DISTINCT, chosen.body_bytes)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        lone = [stack.enter_context(gateway(folder / name, broker__name=name)) for name in ("a", "b")]
        # Each way has brokers of its own: what a broker has stored already adds to what it does for the next message.
        named, unnamed = (_known(stack, folder / way) for way in ("named", "unnamed"))
        for each in lone:
            make_topic(each.url, TOPIC, QUEUES)
        ways = (
            Way("lone", lone, [{"brokers": each.url} for each in lone]),
            Way("in a fleet", *named),
            Way(
                "in a fleet, unnamed",
                unnamed.brokers,
                [{**each, "duplicates_allowed": False} for each in unnamed.options],
            ),
        )
        for kind, count in zip(KINDS, (chosen.messages, chosen.single), strict=True):
            _compare(ways, kind, bodies, count, chosen.rounds)


if __name__ == "__main__":
    main()
