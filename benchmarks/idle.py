"""What gateway and jobs use while nothing happens, in % of one core: `python -m benchmarks.idle`.

The gateway alone, with the lake query (`--alone-seconds 0` leaves out these two), with all jobs, and
with all jobs while ten messages wait for an hour.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import paced
from benchmarks.broker import gateway, make_topic, positions, scratch
from benchmarks.cpu import Meter, rss_bytes, tree, watch_cpu_s
from benchmarks.jobs import lake_query, wait_compacted
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed, waiting
from benchmarks.wire import ask

SCHEDULED = 10
SCHEDULED_MS = 3_600_000


def _measure(what: str, pids: list[int], seconds: float) -> None:
    with Meter(*pids) as meter, ThreadPoolExecutor(len(pids)) as threads:
        used_s = list(threads.map(lambda pid: watch_cpu_s(pid, seconds), pids))
    shares = [round(each / seconds * 100, 2) for each in used_s]
    more = {"percent_each": shares, "rss_mib": [round(sum(map(_rss, tree(pid))) / 2**20) for pid in pids]}
    emit(f"idle, {what}", sum(shares), "% of one core", {"seconds": seconds}, **more, **meter.spent())


def _rss(pid: int) -> int:
    try:
        return rss_bytes(pid)
    except OSError:
        return 0


def _schedule(url: str, count: int, delay_ms: int) -> None:
    messages = [{"body": f"later {number}", "delay_ms": delay_ms} for number in range(count)]
    ask(url, "POST", "/v1/topics/paced/messages", {"messages": messages})
    if (now := waiting(url))["delays"] != count:
        raise RuntimeError(f"{count} messages were scheduled, and what waits is {now}")


def _alone_and_with_lake(chosen: Any) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        make_topic(process.url, "paced", 4)
        paced.start(process.url, "paced", 200, 5).communicate(timeout=60)
        time.sleep(min(chosen.settle_seconds, 5))
        say("idle: the gateway alone")
        _measure("gateway alone", [process.pid], chosen.alone_seconds)
        query = stack.enter_context(lake_query(process.url, folder / "lake"))
        wait_compacted(process.url, query, positions(process.url)["max_position"], 300)
        time.sleep(chosen.settle_seconds)
        say("idle: with the lake query")
        _measure("gateway and lake query", [process.pid, query.pid], chosen.alone_seconds)


def _with_all_jobs(chosen: Any) -> None:
    with scratch() as folder, routed(folder, DEFAULT_LEAD_MS, chosen.warm_seconds) as (process, jobs):
        make_topic(process.url, "paced", 4)
        pids = [process.pid, jobs.pid]
        wait_compacted(process.url, jobs, positions(process.url)["max_position"], 300)
        time.sleep(chosen.settle_seconds)
        say("idle: all jobs, nothing waits")
        _measure("gateway and all jobs", pids, chosen.seconds)
        _schedule(process.url, SCHEDULED, SCHEDULED_MS)
        time.sleep(chosen.settle_seconds)
        say(f"idle: all jobs, {SCHEDULED} messages wait for an hour")
        _measure(f"gateway and all jobs, {SCHEDULED} messages wait for an hour", pids, chosen.seconds)


def main() -> None:
    chosen = sizes(__doc__, alone_seconds=(30, 2), seconds=(60, 2), settle_seconds=(20, 1), warm_seconds=(5, 1))
    if chosen.alone_seconds:
        _alone_and_with_lake(chosen)
    _with_all_jobs(chosen)


if __name__ == "__main__":
    main()
