"""Arrow requests of 1,000 messages: rate, and log bytes for each body byte. `python -m benchmarks.arrow_produce`.

The client sends requests made beforehand, a thread a connection. Two rates: of what was
acknowledged, and of what was on disk when all of it was; the second can't be above what the disk
takes, which is measured first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bodies import arrow_request, json_bodies, random_bodies
from benchmarks.broker import gateway, log_bytes, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.disk import emit_write_rate
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import Connection

BATCH = 1000
DISTINCT = 8

Make = Callable[[int, int], list[bytes]]


def requests_of(make: Make, body_bytes: int, topic: str = "arrow", ack: str = "async") -> list[bytes]:
    """A few different requests of 1,000 messages."""
    bodies = make(BATCH * DISTINCT, body_bytes)
    return [arrow_request(topic, bodies[first : first + BATCH], ack) for first in range(0, len(bodies), BATCH)]


def produce(url: str, requests: list[bytes], messages: int, connections: int) -> list[int]:
    """Send so many messages; how long each request took, in ns."""
    taken_ns: list[int] = []
    failures: list[BaseException] = []
    count = max(messages // BATCH // connections, 1)

    def send(first: int) -> None:
        connection = Connection(url)
        try:
            for number in range(first, first + count):
                begin = time.perf_counter_ns()
                connection.exchange(requests[number % len(requests)])
                taken_ns.append(time.perf_counter_ns() - begin)
        except BaseException as error:  # noqa: BLE001 (raised below, in the main thread)
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(number * 3,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return taken_ns


def _measure(folder: Path, name: str, make: Make, settings: dict[str, Any]) -> None:
    messages, body_bytes = settings["messages"], settings["body_bytes"]
    requests = requests_of(make, body_bytes, ack=settings["ack"])
    with gateway(folder, storage__compression=settings["compression"]) as process:
        make_topic(process.url, "arrow", 4)
        produce(process.url, requests, BATCH * 10, settings["connections"])  # warm
        wait_flushed(process.url)
        before = log_bytes(folder)
        with Meter(process.pid) as meter:
            begin = time.monotonic()
            taken_ns = produce(process.url, requests, messages, settings["connections"])
            acknowledged_s = time.monotonic() - begin
            wait_flushed(process.url)
            flushed_s = time.monotonic() - begin
        count = len(taken_ns) * BATCH
        emit(
            f"arrow produce, {name}",
            count / acknowledged_s,
            "messages/s",
            settings,
            on_disk_messages_per_s=round(count / flushed_s),
            log_mb_per_s=round((log_bytes(folder) - before) / flushed_s / 1e6, 1),
            log_bytes_per_body_byte=round((log_bytes(folder) - before) / (count * body_bytes), 4),
            **latencies(taken_ns, "request_"),
            **meter.spent(),
        )


def main() -> None:
    chosen = sizes(__doc__, messages=(1_000_000, 4_000), large_messages=(100_000, 2_000), disk_mib=(1024, 32))
    with scratch() as folder:
        emit_write_rate(folder, chosen.disk_mib)
    runs: list[tuple[str, Make, int, int, str, str]] = [
        ("random", random_bodies, 1024, connections, "lz4", "async") for connections in (1, 2, 4)
    ]
    runs.append(("random", random_bodies, 1024, 4, "lz4", "sync"))
    runs.append(("compressible", json_bodies, 1024, 2, "lz4", "async"))
    runs += [("compressible", json_bodies, 8192, 2, compression, "async") for compression in ("none", "lz4", "zstd")]
    runs += [("random", random_bodies, 8192, 2, compression, "async") for compression in ("none", "lz4", "zstd")]
    for name, make, body_bytes, connections, compression, ack in runs:
        say(f"arrow produce: {name}, {body_bytes} bytes, {connections} connections, {compression}, {ack}")
        settings = {
            "messages": chosen.messages if body_bytes == 1024 else chosen.large_messages,
            "body_bytes": body_bytes,
            "connections": connections,
            "compression": compression,
            "ack": ack,
        }
        with scratch() as folder:
            _measure(folder, name, make, settings)
    with scratch() as folder:
        emit_write_rate(folder, chosen.disk_mib)


if __name__ == "__main__":
    main()
