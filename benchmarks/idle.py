"""What gateway and lake query use while nothing happens, in % of one core: `python -m benchmarks.idle`."""

from __future__ import annotations

import contextlib
import time

from benchmarks import paced
from benchmarks.broker import gateway, make_topic, positions, scratch
from benchmarks.cpu import Meter, cpu_s, rss_bytes, tree
from benchmarks.lake import lake_query, wait_compacted
from benchmarks.options import sizes
from benchmarks.results import emit, say


def _measure(what: str, pids: list[int], seconds: float) -> None:
    before = [cpu_s(pid) for pid in pids]
    with Meter(*pids) as meter:
        time.sleep(seconds)
    shares = [round((cpu_s(pid) - begin) / meter.wall_s * 100, 2) for pid, begin in zip(pids, before, strict=True)]
    more = {"percent_each": shares, "rss_mib": [round(sum(map(_rss, tree(pid))) / 2**20) for pid in pids]}
    emit(f"idle, {what}", sum(shares), "% of one core", {"seconds": seconds}, **more, **meter.spent())


def _rss(pid: int) -> int:
    try:
        return rss_bytes(pid)
    except OSError:
        return 0


def main() -> None:
    chosen = sizes(__doc__, seconds=(60, 2), settle_seconds=(30, 1))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        make_topic(process.url, "paced", 4)
        paced.start(process.url, "paced", 200, 5).communicate(timeout=60)
        time.sleep(min(chosen.settle_seconds, 5))
        say("idle: the gateway alone")
        _measure("gateway alone", [process.pid], chosen.seconds)
        query = stack.enter_context(lake_query(process.url, folder / "lake"))
        wait_compacted(process.url, query, positions(process.url)["max_position"], 300)
        time.sleep(chosen.settle_seconds)
        say("idle: with the lake query")
        _measure("gateway and lake query", [process.pid, query.pid], chosen.seconds)


if __name__ == "__main__":
    main()
