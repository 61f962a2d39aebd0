"""The lake query on a standalone Spark cluster: how fast one executor and two go through a log. `python -m
benchmarks.cluster`.

Executors of one core each, on this machine. The gateway and the driver need cores too: where there are only two, the
second executor has nothing to gain.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import json_bodies
from benchmarks.broker import gateway, make_topic, positions, scratch
from benchmarks.compaction import commits, watch
from benchmarks.jobs import JobsProcess
from benchmarks.options import sizes
from benchmarks.results import emit, say
from lakemq.testing.spark_cluster import start_spark_cluster

EXECUTORS = (1, 2)


def _rate(chosen: Any, url: str, folder: Path, executors: int) -> None:
    """All of the log, into a lake of its own."""
    end = positions(url)["max_position"]
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(start_spark_cluster(folder / "spark", workers=executors))
        settings = {"LAKEMQ_SPARK__MASTER": cluster.master, "LAKEMQ_LAKE__PARTITIONS": str(executors)}
        settings["LAKEMQ_SPARK__CONF"] = json.dumps(cluster.conf)
        begin = time.monotonic()
        query = JobsProcess(url, folder / "lake", "lake", settings=settings)
        stack.callback(query.stop)
        samples = watch(url, query, lambda sample: sample[2] >= end, chosen.seconds_max)
        steps = commits(samples) or [(samples[-1][0], end)]
        several = len(steps) > 1
        first, last = steps[0], steps[-1]
        rate = (last[1] - first[1]) / (last[0] - first[0]) if several else last[1] / (last[0] - begin)
        said = {
            "executors": executors,
            "messages": chosen.messages,
            "body_bytes": 1024,
            "measured": "after the first commit" if several else "all, as there was one commit",
        }
        emit("compaction on a cluster, rate", rate, "messages/s", said, batches=len(steps))


def main() -> None:
    chosen = sizes(__doc__, messages=(3_000_000, 5_000), seconds_max=(900, 300))
    for executors in EXECUTORS:
        with scratch() as folder, gateway(folder / "data") as process:
            make_topic(process.url, "arrow", 4)
            say(f"cluster: fill, for {executors}")
            produce(process.url, requests_of(json_bodies, 1024), chosen.messages, 2)
            say(f"cluster: the lake query with {executors}")
            _rate(chosen, process.url, folder, executors)


if __name__ == "__main__":
    main()
