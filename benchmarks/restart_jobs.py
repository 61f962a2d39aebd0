"""The jobs killed and started while a million scheduled messages wait. `python -m benchmarks.restart_jobs`.

They are due at random times from `--first-minutes` on, within `--days`, one at the very end. In each round the jobs are
killed, `--overdue` more messages become due while they are away, and they are started. Lead and grace are off, so that
the query alone decides.
Told is the time from the start of the process to the first overdue message in its topic, and to the last; `empty` says
how long a start takes until the queries are ready where nothing waits.
"""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa

from benchmarks.bodies import arrow_content, random_bodies
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import pss_bytes, rss_bytes, tree
from benchmarks.jobs import JobsProcess
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.routing import waiting
from benchmarks.wire import ARROW, Connection, ask, build

BATCH = 5_000
TOPIC = "scheduled"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
SECONDS_MAX = 300
AT_WORK_S = 10
MIB = 2**20


def _store(url: str, dues: list[int], body_bytes: int) -> None:
    """Store messages that are due then."""
    connection = Connection(url)
    bodies = random_bodies(BATCH, body_bytes)
    for first in range(0, len(dues), BATCH):
        some = dues[first : first + BATCH]
        columns = {"body": pa.array(bodies[: len(some)], pa.binary()), "deliver_at_ms": pa.array(some, pa.int64())}
        request = build("POST", f"/v1/topics/{TOPIC}/messages", arrow_content(columns), content_type=ARROW)
        stored = orjson.loads(connection.exchange(request).body)
        if stored["count"] != len(some):
            raise RuntimeError(f"not all of a request was stored: {stored}")
    connection.close()


def _delivered(url: str) -> int:
    (queue,) = ask(url, "GET", f"/v1/topics/{TOPIC}")["queues"]
    return int(queue["max_offset"])


def _start(threads: ThreadPoolExecutor, url: str, lake: Path, wanted: int) -> tuple[JobsProcess, dict[str, float]]:
    """The jobs, which end with `threads`, and the seconds from their start to the first message that is delivered, to
    the `wanted`th, and until they say that they are ready."""
    before, begin = _delivered(url), time.monotonic()
    told: dict[str, float] = {}
    starting = threads.submit(JobsProcess, url, lake)
    while "all_s" not in told or not starting.done():
        count = _delivered(url) - before
        now = round(time.monotonic() - begin, 2)
        if count:
            told.setdefault("first_s", now)
        if count >= wanted:
            told.setdefault("all_s", now)
        if now > SECONDS_MAX:
            raise TimeoutError(f"{count} of {wanted} overdue messages within {SECONDS_MAX} s")
        time.sleep(0.02)
    jobs = starting.result()
    return jobs, told | {"ready_s": round(jobs.ready_s, 2)}


def _kill(jobs: JobsProcess) -> None:
    os.killpg(jobs.pid, signal.SIGKILL)
    jobs.stop()


def _memory(gateway_pid: int, jobs: JobsProcess, lake: Path) -> dict[str, float]:
    """Of the gateway its resident memory; of the jobs' processes the sum of their shares; the state's files."""
    sizes_of = [file.stat().st_size for file in lake.rglob("*") if file.is_file() and "state" in file.parts]
    return {
        "gateway_mib": round(rss_bytes(gateway_pid) / MIB, 1),
        "jobs_pss_mib": round(sum(pss_bytes(each) for each in tree(jobs.pid)) / MIB, 1),
        "state_mib": round(sum(sizes_of) / MIB, 2),
    }


def main() -> None:
    chosen = sizes(
        __doc__,
        messages=(1_000_000, 5_000),
        overdue=(1_000, 100),
        first_minutes=(60.0, 60.0),
        days=(365.0, 365.0),
        body_bytes=(100, 100),
        rounds=(3, 1),
    )
    settings = {"messages": chosen.messages, "overdue": chosen.overdue, "days": chosen.days, "jobs": "all"}
    settings |= {"first_minutes": chosen.first_minutes}
    options = {"routing__lead_ms": 0, "routing__grace_ms": -1, "delay__waiting_max": 2 * chosen.messages}
    with scratch() as folder, gateway(folder / "data", **options) as process, ThreadPoolExecutor(1) as threads:
        url, lake = process.url, folder / "lake"
        make_topic(url, TOPIC, 1)
        jobs, empty = _start(threads, url, lake, 0)
        now_ms, chance = int(time.time() * 1000), random.Random(1)
        end_ms = now_ms + int(chosen.days * DAY_MS)
        dues = [
            chance.randrange(now_ms + int(chosen.first_minutes * MINUTE_MS), end_ms) for _ in range(chosen.messages - 1)
        ]
        loaded = time.monotonic()
        _store(url, [*dues, end_ms], chosen.body_bytes)
        say(f"restart_jobs: {chosen.messages} stored in {time.monotonic() - loaded:.0f} s")
        time.sleep(AT_WORK_S)
        for number in range(chosen.rounds):
            _kill(jobs)
            due_ms = int(time.time() * 1000) + 500
            _store(url, [due_ms] * chosen.overdue, chosen.body_bytes)
            time.sleep(1)
            jobs, told = _start(threads, url, lake, chosen.overdue)
            time.sleep(AT_WORK_S)
            memory = _memory(process.pid, jobs, lake)
            what = "killed and started, to the first overdue message"
            emit(
                what,
                told["first_s"],
                "s",
                settings | {"round": number},
                empty_ready_s=empty["ready_s"],
                **told,
                **memory,
            )
        if (left := waiting(url)["delays"]) != chosen.messages:
            raise RuntimeError(f"{left} messages wait, not {chosen.messages}")
        jobs.stop()


if __name__ == "__main__":
    main()
