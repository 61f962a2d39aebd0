"""Pull what has left the log, from the lake, and what others notice of it. `python -m benchmarks.cold_pull`.

Spark compacts the log, and optimizes the tables unless `--raw 1`. Then retention takes the log, and one
connection goes round the topic's queues from offset 0, Arrow, 10,000 a request; the first round finds
nothing in the gateway's memory. Meanwhile, and before, another connection pulls the newest 32 messages
of another topic, so many times a second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, positions, scratch, wait_flushed
from benchmarks.cpu import Meter, rss_bytes
from benchmarks.jobs import lake_query, wait_compacted
from benchmarks.options import sizes
from benchmarks.pull import follow
from benchmarks.results import emit, latencies, say
from benchmarks.wire import ARROW, Connection, ask, build

TOPIC, HOT = "arrow", "hot"
QUEUES = 4
HOT_MESSAGES = 32
COMPACT_S_MAX = 900
RETENTION_S_MAX = 120


def _fill(url: str, lake: Path, messages: int, raw: bool) -> None:
    """Messages, all of them in the lake, and the most of them in the lake only."""
    make_topic(url, TOPIC, QUEUES)
    make_topic(url, HOT, 1)
    say("cold_pull: fill")
    produce(url, requests_of(random_bodies, 1024, TOPIC), messages, 2)
    wait_flushed(url)
    say("cold_pull: compact")
    with lake_query(url, lake) as query:
        wait_compacted(url, query, positions(url)["max_position"], COMPACT_S_MAX)
    if not raw:
        say("cold_pull: optimize")
        command = [
            sys.executable,
            "-m",
            "lakemq",
            "maintenance",
            "run",
            "optimize",
            "--lake",
            str(lake),
            "--broker",
            url,
        ]
        eager = {"LAKEMQ_MAINTENANCE__SMALL_FILES_MIN": "2", "LAKEMQ_MAINTENANCE__SMALL_FILE_BYTES": str(2**30)}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **eager})
    # The compacted position was told before: what is produced from here on stays in the log.
    produce(url, requests_of(random_bodies, 1024, HOT), 1000, 1)
    deadline = time.monotonic() + RETENTION_S_MAX
    while positions(url)["min_position"] == 0:
        if time.monotonic() > deadline:
            raise TimeoutError("retention took nothing")
        time.sleep(0.2)


def _ends(url: str) -> dict[int, int]:
    """By queue, where the log begins."""
    return {queue["queue_id"]: queue["log_min_offset"] for queue in ask(url, "GET", f"/v1/topics/{TOPIC}")["queues"]}


def _read(url: str, ends: dict[int, int], rounds: int) -> None:
    for _ in range(rounds):
        follow(url, list(ends), ends, ARROW, False)


def _hot(url: str, per_s: float, ended: threading.Event) -> list[int]:
    """How long each pull of the log's end took, in ns, from when it was due."""
    connection = Connection(url)
    end = ask(url, "GET", f"/v1/topics/{HOT}")["queues"][0]["max_offset"]
    target = f"/v1/topics/{HOT}/queues/0/messages?offset={end - HOT_MESSAGES}&max={HOT_MESSAGES}"
    request = build("GET", target, accept=ARROW)
    taken: list[int] = []
    due = time.monotonic_ns()
    while not ended.is_set():
        due += int(1e9 / per_s)
        time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
        connection.exchange(request)
        taken.append(time.monotonic_ns() - due)
    connection.close()
    return taken


def _measure_hot(url: str, per_s: float, seconds: float, ends: dict[int, int] | None) -> None:
    """Hot pulls for so long; while a process of its own reads from the lake, when `ends` are given."""
    reader = None
    if ends is not None:
        reader = multiprocessing.get_context("spawn").Process(target=_read, args=(url, ends, 1_000_000))
        reader.start()
        time.sleep(2)
    ended = threading.Event()
    timer = threading.Timer(seconds, ended.set)
    timer.start()
    try:
        taken = _hot(url, per_s, ended)
    finally:
        timer.cancel()
        if reader is not None:
            reader.kill()
            reader.join()
    name = "pulls of the log's end, beside a cold reader" if ends else "pulls of the log's end, alone"
    numbers = latencies(taken)
    emit(name, numbers["p50_ms"], "ms", {"per_s": per_s, "seconds": seconds, "messages": HOT_MESSAGES}, **numbers)


def main() -> None:
    chosen = sizes(
        __doc__, messages=(2_000_000, 20_000), rounds=(3, 1), seconds=(20, 2), hot_per_s=(100, 50), raw=(0, 0)
    )
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        options = {"storage__segment_bytes": 2**20 if chosen.quick else 2**26, "storage__retention_ms": 0}
        options |= {"storage__compacted_grace_ms": 0}
        lake = folder / "lake"
        process = stack.enter_context(gateway(folder / "data", lake__dir=lake, **options))
        _fill(process.url, lake, chosen.messages, bool(chosen.raw))
        ends = _ends(process.url)
        settings = {"messages": sum(ends.values()), "body_bytes": 1024, "queues": QUEUES, "max": 10_000}
        files = len(list((lake / "messages").glob("*.parquet")))
        for turn in range(chosen.rounds):
            say(f"cold_pull: round {turn + 1}")
            with Meter(process.pid) as meter:
                begin = time.monotonic()
                count = follow(process.url, list(ends), ends, ARROW, False)
                seconds = time.monotonic() - begin
            rss_mib = round(rss_bytes(process.pid) / 2**20)
            more = {"round": turn + 1, "files": files, "gateway_rss_mib": rss_mib}
            emit("cold pull, arrow", count / seconds, "messages/s", settings, **more, **meter.spent())
        _measure_hot(process.url, chosen.hot_per_s, chosen.seconds, None)
        _measure_hot(process.url, chosen.hot_per_s, chosen.seconds, ends)


if __name__ == "__main__":
    main()
