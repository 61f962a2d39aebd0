"""What a commit to a Delta table on a disk costs: `python -m benchmarks.delta_commits`.

Small appends, one after the other, with Delta's own log store and with ours in turns, each in a JVM of its own. The CPU
is that of Java and of the processes that it started and that have ended.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

from benchmarks.broker import scratch
from benchmarks.options import sizes
from benchmarks.results import emit
from lakemq.jobs.session.jars import LOG_STORE
from lakemq.jobs.session.session import start_session
from lakemq.settings import Settings, Spark

STORES = {"Delta's own": "io.delta.storage.HDFSLogStore", "by links": LOG_STORE}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> tuple[float, float]:
    """CPU of the process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, of_children, system_of_children = (int(field) / _TICKS_PER_S for field in fields[11:15])
    return user + system, of_children + system_of_children


def measure(store: str, commits: int, warm: int, round_: int) -> None:
    conf = {"spark.delta.logStore.file.impl": STORES[store]}
    session: Any = start_session(Settings(spark=Spark(conf=conf)), "lakemq commits")
    java = session.sparkContext._gateway.proc.pid

    def append(count: int) -> None:
        for _ in range(count):
            session.range(10).coalesce(1).write.format("delta").mode("append").save(str(folder / "table"))

    with scratch() as folder:
        append(warm)
        own, forked = cpu_s(java)
        append(commits)
        ended = cpu_s(java)
        said = {"store": store, "commits": commits, "warm": warm, "round": round_}
        emit("a commit, Java's CPU", (ended[0] - own) / commits * 1000, "ms", said)
        emit("a commit, CPU of forked processes", (ended[1] - forked) / commits * 1000, "ms", said)
    session.stop()


def main() -> None:
    options = sizes(__doc__, commits=(100, 3), warm=(60, 2), rounds=(2, 1))
    spawned = multiprocessing.get_context("spawn")
    for round_ in range(options.rounds):
        for store in STORES:
            process = spawned.Process(target=measure, args=(store, options.commits, options.warm, round_))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
