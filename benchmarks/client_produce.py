"""The Python client's producer: one process, defaults, `send_async`. `python -m benchmarks.client_produce`.

The bodies are made beforehand and can't be compressed. A message counts when its receipt has come. One
thread calls `send_async` as quickly as it can; back-pressure slows it to what is stored. Then the same
with asyncio, with an ordering key, and with one `send` after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.disk import emit_write_rate
from benchmarks.options import sizes
from benchmarks.results import emit, latencies
from lakemq.client import Producer, SendFuture, SendReceipt, aio
from lakemq.testing import GatewayProcess

DISTINCT = 1_000
QUEUES = 4

Produce = Callable[[Producer, list[bytes], int], object]


def _plain(producer: Producer, bodies: list[bytes], count: int) -> SendReceipt:
    send = producer.send_async
    future: SendFuture | None = None
    for _ in range(count // len(bodies)):
        for body in bodies:
            future = send("bench", body)
    producer.flush()
    assert future is not None
    return future.result()


def _with_callbacks(producer: Producer, bodies: list[bytes], count: int) -> None:
    send = producer.send_async
    failed: list[SendFuture] = []

    def tell(future: SendFuture) -> None:
        if future.exception() is not None:
            failed.append(future)

    for _ in range(count // len(bodies)):
        for body in bodies:
            send("bench", body).add_done_callback(tell)
    producer.flush()
    assert not failed


def _ordered(producer: Producer, bodies: list[bytes], count: int) -> None:
    send = producer.send_async
    keys = [f"key-{number}" for number in range(100)]
    for _ in range(count // len(bodies)):
        for number, body in enumerate(bodies):
            send("bench", body, ordering_key=keys[number % 100])
    producer.flush()


def _measure(
    process: GatewayProcess, name: str, produce: Produce, bodies: list[bytes], count: int, options: dict[str, Any]
) -> None:
    with Producer(process.url, **options) as producer:
        produce(producer, bodies, max(count // 10, len(bodies)))  # warm
        wait_flushed(process.url)
        with Meter(process.pid) as meter:
            begin = time.monotonic()
            produce(producer, bodies, count)
            taken_s = time.monotonic() - begin
    done = count // len(bodies) * len(bodies)
    settings = {"messages": done, "body_bytes": len(bodies[0]), "queues": QUEUES, **options}
    emit(f"client produce, {name}", done / taken_s, "messages/s", settings, **meter.spent())


async def _produce_aio(producer: aio.Producer, bodies: list[bytes], count: int) -> None:
    send = producer.send_async
    for _ in range(count // len(bodies)):
        for body in bodies:
            await send("bench", body)
    await producer.flush()


async def _measure_aio(process: GatewayProcess, bodies: list[bytes], count: int) -> None:
    async with aio.Producer(process.url) as producer:
        await _produce_aio(producer, bodies, max(count // 10, len(bodies)))
        wait_flushed(process.url)
        with Meter(process.pid) as meter:
            begin = time.monotonic()
            await _produce_aio(producer, bodies, count)
            taken_s = time.monotonic() - begin
    settings = {"messages": count, "body_bytes": len(bodies[0]), "queues": QUEUES}
    emit("client produce, asyncio", count / taken_s, "messages/s", settings, **meter.spent())


def _measure_send(process: GatewayProcess, bodies: list[bytes], count: int) -> None:
    taken_ns: list[int] = []
    with Producer(process.url) as producer:
        producer.send("bench", bodies[0])
        with Meter(process.pid) as meter:
            for number in range(count):
                begin = time.perf_counter_ns()
                producer.send("bench", bodies[number % len(bodies)])
                taken_ns.append(time.perf_counter_ns() - begin)
    rate = count / (sum(taken_ns) / 1e9)
    emit(
        "client produce, send one by one",
        rate,
        "messages/s",
        {"messages": count},
        **latencies(taken_ns),
        **meter.spent(),
    )


def _tune(process: GatewayProcess, bodies: list[bytes], count: int) -> None:
    """What the defaults were chosen by."""
    for batch_kib in (64, 256, 512, 1024, 2048, 4096):
        _measure(process, "plain", _plain, bodies, count, {"batch_bytes": batch_kib * 1024})
    for in_flight in (1, 2, 4, 8):
        _measure(process, "plain", _plain, bodies, count, {"in_flight_max": in_flight})
    for linger_ms in (0, 1, 2, 5, 10, 20):
        _measure(process, "plain", _plain, bodies, count, {"linger_ms": linger_ms})


def main() -> None:
    chosen = sizes(
        __doc__,
        messages=(1_000_000, 4_000),
        single=(2_000, 50),
        body_bytes=(1024, 1024),
        rounds=(3, 1),
        tune=(0, 0),
        disk_mib=(1024, 32),
    )
    bodies = random_bodies(DISTINCT, chosen.body_bytes)
    with scratch() as folder:
        emit_write_rate(folder, chosen.disk_mib)
    with scratch() as folder, gateway(folder) as process:
        make_topic(process.url, "bench", QUEUES)
        if chosen.tune:
            _tune(process, bodies, chosen.messages)
            return
        for _ in range(chosen.rounds):
            _measure(process, "send_async", _plain, bodies, chosen.messages, {})
        _measure(process, "send_async with callbacks", _with_callbacks, bodies, chosen.messages, {})
        _measure(process, "send_async with 100 ordering keys", _ordered, bodies, chosen.messages, {})
        asyncio.run(_measure_aio(process, bodies, chosen.messages))
        _measure_send(process, bodies, chosen.single)


if __name__ == "__main__":
    main()
