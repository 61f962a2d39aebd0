"""From when a message is to be sent until a long poll has it: `python -m benchmarks.end_to_end`.

1,000 single POSTs a second, four queues with a long poll each. The gateway alone, with all jobs beside it, and the
harness's own measure of one queue.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from benchmarks import harness, paced, receiver
from benchmarks.broker import gateway, make_topic, positions, scratch
from benchmarks.cpu import Meter
from benchmarks.jobs import all_jobs, wait_compacted
from benchmarks.options import sizes
from benchmarks.results import emit, say, skip

QUEUES = 4


def _measure(url: str, pids: list[int], what: str, chosen: Any) -> None:
    warm_s = max(chosen.seconds / 6, 1)
    make_topic(url, "paced", QUEUES)
    with Meter(*pids) as meter:
        taker = receiver.start(url, "paced", QUEUES, 3, "--skip", str(int(warm_s * chosen.rate)))
        time.sleep(1)
        sender = paced.start(url, "paced", chosen.rate, warm_s + chosen.seconds)
        sent = json.loads(sender.communicate(timeout=warm_s + chosen.seconds + 60)[0])
        received = json.loads(taker.communicate(timeout=60)[0])
    settings = {"rate": chosen.rate, "seconds": chosen.seconds, "queues": QUEUES, "body_bytes": 1024}
    emit(what, received["p50_ms"], "ms", settings, **received, **sent, **meter.spent())


def _by_harness(bench: Path, chosen: Any) -> None:
    extra = {
        "RATE": str(chosen.rate),
        "HTTP_SETUP_BODY": '{"queues":1}',
        "HTTP_PULL": "GET /v1/topics/{TOPIC}/queues/0/messages?offset={OFFSET}&wait_ms=20000&max=1000",
        "HTTP_NEXT_KEY": "next_offset",
    }
    for mode in ("async", "sync"):
        with scratch() as folder:
            row = harness.run_http(bench, mode, "e2e", chosen.seconds, folder, extra)[0]
        settings = {"rate": chosen.rate, "seconds": chosen.seconds, "queues": 1, "generator": "harness"}
        emit(f"end to end, harness, {mode}", row.get("p50_ms", float("nan")), "ms", settings, **row)


def main() -> None:
    chosen = sizes(__doc__, seconds=(60, 2), rate=(1000, 200), warm_seconds=(30, 2))
    bench = harness.script()
    if bench is None:
        skip("end to end, harness", "PEERS is not set")
    else:
        say("end to end: by the harness")
        _by_harness(bench, chosen)
    say("end to end: the gateway alone")
    with scratch() as folder, gateway(folder) as process:
        _measure(process.url, [process.pid], "end to end, gateway alone", chosen)
    say("end to end: with all jobs")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        make_topic(process.url, "warm", QUEUES)
        jobs = stack.enter_context(all_jobs(process.url, folder / "lake"))
        paced.start(process.url, "warm", chosen.rate, chosen.warm_seconds).communicate(timeout=chosen.warm_seconds + 60)
        wait_compacted(process.url, jobs, positions(process.url)["max_position"], 300)
        _measure(process.url, [process.pid, jobs.pid], "end to end, with all jobs", chosen)
        jobs.check()


if __name__ == "__main__":
    main()
