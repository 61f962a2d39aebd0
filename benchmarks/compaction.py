"""The lake query: how fast it goes through a log, and how far it is behind. `python -m benchmarks.compaction`.

The rate is taken between the first time and the last that the broker was told of a commit: the
start of Java and of the first batch is not in it. The delay of a message is the time from when it
was stored until the broker was told that all three tables hold it; both are seen by asking for the
broker's positions, 20 times a second.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

from benchmarks import paced
from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import json_bodies
from benchmarks.broker import gateway, make_topic, positions, scratch
from benchmarks.cpu import Meter
from benchmarks.jobs import JobsProcess, lake_query, wait_compacted
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say

_LOOK_S = 0.05

Sample = tuple[float, int, int]
"""When, the end of the log, the end of what is compacted."""


def watch(url: str, query: JobsProcess, ended: Callable[[Sample], bool], seconds_max: float) -> list[Sample]:
    """The positions over time, until `ended`."""
    samples: list[Sample] = []
    deadline = time.monotonic() + seconds_max
    while not samples or not ended(samples[-1]):
        query.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done within {seconds_max} s: {samples[-1]}")
        now = positions(url)
        samples.append((time.monotonic(), now["max_position"], now["compacted_position"]))
        time.sleep(_LOOK_S)
    return samples


def commits(samples: list[Sample]) -> list[tuple[float, int]]:
    """When compaction had come where: the samples at which it went on."""
    return [(after[0], after[2]) for before, after in itertools.pairwise(samples) if after[2] > before[2]]


def delays_ns(samples: list[Sample]) -> list[int]:
    """For each message that was both stored and compacted meanwhile, the time between."""
    times, ends = [sample[0] for sample in samples], [sample[1] for sample in samples]
    delays: list[int] = []
    held = max(samples[0][2], ends[0])
    for when, position in commits(samples):
        for each in range(held, position):
            stored = times[bisect.bisect_right(ends, each)]
            delays.append(int((when - stored) * 1e9))
        held = max(held, position)
    return delays


def _rate(chosen: Any) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        make_topic(process.url, "arrow", 4)
        say("compaction: fill")
        produce(process.url, requests_of(json_bodies, 1024), chosen.messages, 2)
        end = positions(process.url)["max_position"]
        say("compaction: the lake query")
        query = stack.enter_context(lake_query(process.url, folder / "lake"))
        begin = time.monotonic()
        with Meter(process.pid, query.pid) as meter:
            samples = watch(process.url, query, lambda sample: sample[2] >= end, chosen.seconds_max)
        steps = commits(samples)
        first, last = steps[0], steps[-1]
        several = len(steps) > 1
        rate = (last[1] - first[1]) / (last[0] - first[0]) if several else last[1] / (last[0] - begin)
        settings = {"messages": chosen.messages, "body_bytes": 1024, "measured": "after the first commit"}
        settings["measured"] = "after the first commit" if several else "all, as there was one commit"
        emit(
            "compaction, rate",
            rate,
            "messages/s",
            settings,
            with_first_batch_messages_per_s=round(end / (last[0] - begin)),
            ready_s=round(query.ready_s, 1),
            batches=len(steps),
            **meter.spent(),
        )


def _delay(chosen: Any) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        make_topic(process.url, "paced", 4)
        paced.start(process.url, "paced", chosen.rate, 3).communicate(timeout=60)
        query = stack.enter_context(lake_query(process.url, folder / "lake"))
        wait_compacted(process.url, query, positions(process.url)["max_position"], 300)
        say("compaction: delay")
        sender = paced.start(process.url, "paced", chosen.rate, chosen.seconds + 15)
        time.sleep(15 if chosen.seconds > 15 else 1)  # until batches have their steady size
        with Meter(process.pid, query.pid) as meter:
            until = time.monotonic() + chosen.seconds
            samples = watch(process.url, query, lambda sample: sample[0] >= until, chosen.seconds + 30)
        sender.communicate(timeout=120)
        delays = delays_ns(samples)
        settings = {"rate": chosen.rate, "seconds": chosen.seconds, "body_bytes": 1024}
        numbers = latencies(delays)
        spent = {"messages": len(delays), "batches": len(commits(samples)), **meter.spent()}
        emit("compaction, delay from store to lake", numbers["p50_ms"], "ms", settings, **numbers, **spent)


def main() -> None:
    chosen = sizes(__doc__, messages=(3_000_000, 5_000), seconds_max=(600, 180), rate=(1000, 200), seconds=(120, 10))
    _rate(chosen)
    _delay(chosen)


if __name__ == "__main__":
    main()
