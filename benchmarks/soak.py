"""What grows while all jobs run and messages are delayed: `python -m benchmarks.soak --minutes 60`.

Single POSTs on a schedule, each due 7.3 s later; nobody receives. A line every half minute: the cores that the gateway
and the jobs have used meanwhile; of the jobs' processes together the descriptors, threads and memory (proportional
set size: what several share counts once), of the gateway the same; and the files of the lake, with its checkpoints.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks import paced
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import cpu_s, pss_bytes, tree
from benchmarks.jobs import all_jobs
from benchmarks.options import sizes
from benchmarks.results import emit, say

DELAY_MS = 7_300
STEP_S = 30.0
_PROC = Path("/proc")


def _entries(pid: int, folder: str) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / folder).iterdir())
    except OSError:  # it has ended meanwhile
        return 0


def _held(pid: int, name: str) -> dict[str, int]:
    """What the process and its descendants hold."""
    pids = tree(pid)
    return {
        f"{name}_descriptors": sum(_entries(each, "fd") for each in pids),
        f"{name}_threads": sum(_entries(each, "task") for each in pids),
        f"{name}_pss_mib": sum(map(pss_bytes, pids)) // 2**20,
    }


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _watch(pids: dict[str, int], lake: Path, sender: Any, settings: dict[str, Any]) -> None:
    begin = before_s = time.monotonic()
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    while sender.poll() is None:
        time.sleep(min(STEP_S, max(settings["seconds"] / 2, 1)))
        now_s, now = time.monotonic(), {name: cpu_s(pid) for name, pid in pids.items()}
        cores = {f"{name}_cores": round((now[name] - before[name]) / (now_s - before_s), 3) for name in pids}
        held: dict[str, Any] = {key: value for name, pid in pids.items() for key, value in _held(pid, name).items()}
        before_s, before = now_s, now
        emit("soak", now_s - begin, "s", settings, **cores, **held, lake_files=_files(lake))


def main() -> None:
    chosen = sizes(__doc__, minutes=(10.0, 0.05), rate=(200, 50))
    seconds = chosen.minutes * 60
    with scratch() as folder, gateway(folder / "data") as process:
        make_topic(process.url, "soak", 4)
        with all_jobs(process.url, folder / "lake") as jobs:
            say(f"soak: all jobs, ready after {jobs.ready_s:.0f} s")
            sender = paced.start(process.url, "soak", chosen.rate, seconds, lakemq_delay_ms=str(DELAY_MS))
            settings = {"rate": chosen.rate, "seconds": seconds, "delay_ms": DELAY_MS}
            _watch({"gateway": process.pid, "jobs": jobs.pid}, folder / "lake", sender, settings)
            sent = json.loads(sender.communicate(timeout=60)[0])
            emit("soak, acknowledged", sent["ack_p50_ms"], "ms", settings, **sent)
            jobs.check()


if __name__ == "__main__":
    main()
