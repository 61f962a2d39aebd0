"""Read all of the log, as rows of the gateway and as frames, and what others notice. `python -m benchmarks.read_log`.

A process of its own reads the same range again and again, as a task of Spark does. Meanwhile a connection
posts single messages on a schedule. The range is of frames of one message, or of frames of a thousand.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection as Pipe

from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, positions, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import Connection, build
from lakemq.jobs.log_client import LogClient, Subscription
from lakemq.jobs.source.frames import read_frames

TOPIC, POSTED = "arrow", "posted"
COLUMNS = [
    *("position", "topic", "queue_id", "queue_offset", "message_id", "tag", "keys", "properties"),
    *("ordering_key", "body", "store_time_ms", "born_time_ms"),
]
BODY_BYTES = 1024


def _rows(client: LogClient, begin: int, end: int) -> int:
    count = 0
    while begin < end:
        table, begin = client.messages(begin, end, Subscription(), COLUMNS)
        count += table.num_rows
    return count


def _frames(client: LogClient, begin: int, end: int) -> int:
    count = 0
    while begin < end:
        for table, following in read_frames(client, "broker-a", begin, end, COLUMNS):
            begin = following
            count += table.num_rows
    return count


ROADS: dict[str, Callable[[LogClient, int, int], int]] = {"rows": _rows, "frames": _frames}


def _read(pipe: Pipe, url: str, road: str, begin: int, end: int, seconds: float) -> None:
    """Reads the range for so long; tells how many messages that were, in how many seconds of how much CPU."""
    with closing(LogClient(url)) as client:
        ROADS[road](client, begin, end)
        pipe.send(None)
        started, spent = time.monotonic(), time.process_time()
        count = 0
        while time.monotonic() < started + seconds:
            count += ROADS[road](client, begin, end)
        pipe.send((count, time.monotonic() - started, time.process_time() - spent))


def _post(url: str, per_s: float, ended: Callable[[], bool]) -> list[int]:
    """How long each acknowledgement took, in ns, from when its message was due."""
    request = build("POST", f"/v1/topics/{POSTED}/messages", bytes(100), content_type="application/octet-stream")
    taken: list[int] = []
    with closing(Connection(url)) as connection:
        due = time.monotonic_ns()
        while not ended():
            due += int(1e9 / per_s)
            time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
            connection.exchange(request)
            taken.append(time.monotonic_ns() - due)
    return taken


def _fill_singly(url: str, messages: int) -> None:
    request = build("POST", f"/v1/topics/{TOPIC}/messages", bytes(BODY_BYTES), content_type="application/octet-stream")
    with closing(Connection(url)) as connection:
        for _ in range(messages):
            connection.exchange(request)


def main() -> None:
    chosen = sizes(__doc__, small=(20_000, 500), large=(200_000, 5_000), rounds=(3, 1), seconds=(8, 1), per_s=(200, 50))
    spawn = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(gateway(stack.enter_context(scratch()) / "data"))
        url = process.url
        for topic in (TOPIC, POSTED):
            make_topic(url, topic, 4)
        first = positions(url)["max_position"]
        say("read_log: fill")
        _fill_singly(url, chosen.small)
        middle = positions(url)["max_position"]
        produce(url, requests_of(random_bodies, BODY_BYTES, TOPIC), chosen.large, 2)
        wait_flushed(url)
        last = positions(url)["max_position"]
        for turn in range(chosen.rounds):
            for name, begin, end in (("a message a frame", first, middle), ("1,000 a frame", middle, last)):
                for road in ROADS:
                    here, there = spawn.Pipe()
                    reader = spawn.Process(target=_read, args=(there, url, road, begin, end, chosen.seconds))
                    reader.start()
                    here.recv()
                    with Meter(process.pid) as meter:
                        taken = _post(url, chosen.per_s, here.poll)
                    count, seconds, cpu_s = here.recv()
                    reader.join()
                    emit(
                        f"{road}, {name}",
                        count / seconds,
                        "messages/s",
                        {"body_bytes": BODY_BYTES, "per_s": chosen.per_s, "seconds": chosen.seconds, "round": turn + 1},
                        gateway_us_per_message=round(meter.spent()["server_cpu_s"] / count * 1e6, 2),
                        reader_us_per_message=round(cpu_s / count * 1e6, 2),
                        **latencies(taken, "ack_"),
                    )


if __name__ == "__main__":
    main()
