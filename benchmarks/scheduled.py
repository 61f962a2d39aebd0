"""A million scheduled messages: what waiting takes, and how fast they are delivered. `python -m benchmarks.scheduled`.

Arrow requests store them, due at an even rate over `--window-seconds`, beginning `--wait-seconds`
after the first request. The memory is taken while all wait. The rate is of messages in their topic
by the time that they were stored there: it can't be above what is due in a second, so give a shorter
window to see the most. All jobs are running.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.bodies import arrow_content, random_bodies
from benchmarks.broker import make_topic, positions, scratch
from benchmarks.cpu import Meter, pss_bytes, rss_bytes, tree
from benchmarks.drain import check_once, drain, stored_by_second, stored_late_ms
from benchmarks.jobs import JobsProcess
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed, waiting
from benchmarks.wire import ARROW, Connection, build

BATCH = 5000
QUEUES = 4
TOPIC = "scheduled"
MIB = 2**20


def _tree_pss_mib(pid: int) -> float:
    """Memory of a process and its descendants; of what some share, each has its part (the kernel's PSS)."""
    return round(sum(map(pss_bytes, tree(pid))) / MIB, 1)


def _memory(gateway_pid: int, jobs: JobsProcess) -> dict[str, float]:
    return {"gateway_mib": round(rss_bytes(gateway_pid) / MIB, 1), "jobs_pss_mib": _tree_pss_mib(jobs.pid)}


def _load(url: str, count: int, body_bytes: int, begin_ms: int, window_ms: float) -> float:
    """Store them all; the seconds it took."""
    connection = Connection(url)
    bodies = random_bodies(BATCH, body_bytes)
    begin = time.monotonic()
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        dues = [begin_ms + int((first + number) * window_ms / count) for number in range(size)]
        columns = {"body": pa.array(bodies[:size], pa.binary()), "deliver_at_ms": pa.array(dues, pa.int64())}
        request = build("POST", f"/v1/topics/{TOPIC}/messages", arrow_content(columns), content_type=ARROW)
        stored = orjson.loads(connection.exchange(request).body)
        if stored["count"] != size:
            raise RuntimeError(f"not all of a request was stored: {stored}")
    connection.close()
    return time.monotonic() - begin


def _watch(url: str, gateway_pid: int, jobs: JobsProcess, seconds_max: float) -> dict[str, float]:
    """Until nothing waits: the most memory, each second."""
    most: dict[str, float] = {}
    deadline = time.monotonic() + seconds_max
    while (left := waiting(url)["delays"]) > 0:
        jobs.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} messages still wait, {seconds_max} s after they could be watched")
        for name, mib in _memory(gateway_pid, jobs).items():
            most[f"most_{name}"] = max(most.get(f"most_{name}", 0), mib)
        time.sleep(1)
    return most


def _fill(url: str, chosen: Any) -> tuple[int, dict[str, float]]:
    """Store all that will wait; when the first is due, in ms, and how long it took."""
    make_topic(url, TOPIC, QUEUES)
    begin_ms = int((time.time() + chosen.wait_seconds) * 1000)
    loaded_s = _load(url, chosen.messages, chosen.body_bytes, begin_ms, chosen.window_seconds * 1000)
    left_s = begin_ms / 1000 - time.time()
    say(f"scheduled: {chosen.messages} stored in {loaded_s:.1f} s, the first is due in {left_s:.1f} s")
    if left_s < chosen.settle_seconds:
        raise RuntimeError(f"storing took {loaded_s:.0f} s: give a longer --wait-seconds")
    return begin_ms, {"loaded_s": round(loaded_s, 1), "loaded_per_s": round(chosen.messages / loaded_s)}


def main() -> None:
    chosen = sizes(
        __doc__,
        messages=(1_000_000, 20_000),
        body_bytes=(100, 100),
        wait_seconds=(60.0, 12.0),
        settle_seconds=(3.0, 1.0),
        window_seconds=(40.0, 3.0),
        warm_seconds=(10, 1),
        late_seconds_max=(120, 60),
    )
    with scratch() as folder, routed(folder, DEFAULT_LEAD_MS, chosen.warm_seconds) as (process, jobs):
        url = process.url
        before = _memory(process.pid, jobs)
        begin_ms, loaded = _fill(url, chosen)
        time.sleep(max(begin_ms / 1000 - time.time() - 1, 0))
        if (all_wait := waiting(url)["delays"]) != chosen.messages:
            raise RuntimeError(f"{all_wait} of {chosen.messages} messages wait, a second before the first is due")
        held, now = _memory(process.pid, jobs), positions(url)
        settings = {"messages": chosen.messages, "body_bytes": chosen.body_bytes, "lead_ms": DEFAULT_LEAD_MS}
        settings |= {"jobs": "all", "queues": QUEUES, "window_s": chosen.window_seconds}
        memory = {**{f"before_{name}": mib for name, mib in before.items()}, **held, **loaded}
        behind = {"not_in_the_lake": now["max_position"] - now["compacted_position"]}
        what = "scheduled, gateway's memory while all wait"
        emit(what, held["gateway_mib"], "MiB", settings, **memory, **behind)
        with Meter(process.pid, jobs.pid) as meter:
            most = _watch(url, process.pid, jobs, chosen.window_seconds + chosen.late_seconds_max)
        say("scheduled: all delivered; pull them")
        table = drain(url, TOPIC)
        rates = stored_by_second(table)
        middle = rates[1:-1] or rates
        rate = {"least_in_a_second": min(middle), "most_in_a_second": max(middle), "seconds": len(rates)}
        rate |= {"due_per_s": round(chosen.messages / chosen.window_seconds)}
        late = stored_late_ms(table)
        what = "scheduled, delivered in a second, median"
        emit(what, statistics.median(middle), "messages/s", settings, **rate, **late, **most, **meter.spent())
        check_once(table, TOPIC, chosen.messages)
        if late["early"]:
            raise RuntimeError(f"{late['early']} messages were early")


if __name__ == "__main__":
    main()
