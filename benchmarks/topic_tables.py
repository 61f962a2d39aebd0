"""Topics with Delta tables of their own: `python -m benchmarks.topic_tables --topics 100`.

JSON bodies on a schedule, round all topics, with all jobs running. A line every half minute: the cores that the gateway
and the jobs have used, the jobs' memory (proportional set size), the files of the lake, and how long the oldest message
has been stored that its topic's table doesn't hold yet: the median and the most of all topics. At the end each message
must be in its topic's table once.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from deltalake import DeltaTable

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import cpu_s, pss_bytes, tree
from benchmarks.jobs import JobsProcess, all_jobs
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.soak import files_of
from benchmarks.wire import Connection, ask, build
from lakemq.jobs.tables.topic_table import find_topic_table

STEP_S = 30.0
LOOK_S = 5.0
_WAIT_S_MAX = 600.0
_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "total": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
}


class Topics:
    """The topics, and of each what was stored that its table isn't known to hold yet."""

    def __init__(self, url: str, lake: Path, count: int) -> None:
        self._url, self._lake = url, lake
        self.names = [f"orders{number:03}" for number in range(count)]
        self.stored = dict.fromkeys(self.names, 0)
        self._left: dict[str, deque[tuple[int, float]]] = {name: deque() for name in self.names}
        """By topic: position, and when its answer came."""
        for name in self.names:
            make_topic(url, name, 1)
            ask(url, "PUT", f"/v1/topics/{name}/schema", {"schema": _SCHEMA, "table": True})

    def send(self, rate: float, seconds: float) -> None:
        """Send round all of them."""
        due = time.monotonic()
        with closing(Connection(self._url)) as connection:
            for number in range(int(rate * seconds)):
                due += 1 / rate
                time.sleep(max(due - time.monotonic(), 0))
                name = self.names[number % len(self.names)]
                body = {
                    "id": number,
                    "customer": f"c{number % 997}",
                    "total": 9.5,
                    "lines": [{"sku": "a"}, {"sku": "b"}],
                }
                request = build(
                    "POST", f"/v1/topics/{name}/messages", json.dumps(body).encode(), content_type="text/plain"
                )
                (stored,) = json.loads(bytes(connection.exchange(request).body))["messages"]
                self._left[name].append((stored["position"], time.monotonic()))
                self.stored[name] += 1

    def ages_s(self) -> list[float]:
        """Of each topic how long its oldest message has been stored that its table doesn't hold; 0: it holds all."""
        return [self._age_s(name) for name in self.names]

    def _age_s(self, name: str) -> float:
        now_s, left = time.monotonic(), self._left[name]
        if not left:
            return 0.0
        table = find_topic_table(self._lake, name)
        held = 0 if table is None else max(table.held().positions.values(), default=0)
        while left and left[0][0] < held:
            left.popleft()
        return now_s - left[0][1] if left else 0.0

    def check(self) -> None:
        """Raise `RuntimeError` where a table hasn't each of its topic's messages once."""
        for name in self.names:
            table = find_topic_table(self._lake, name)
            rows = (
                []
                if table is None
                else DeltaTable(str(table.path)).to_pyarrow_table(columns=["_position"])["_position"]
            )
            if len(rows) != self.stored[name] or len(set(rows)) != len(rows):
                raise RuntimeError(f"{name}: {self.stored[name]} stored, {len(rows)} rows, {len(set(rows))} positions")


def _watch(
    topics: Topics, sender: threading.Thread, pids: dict[str, int], lake: Path, settings: dict[str, Any]
) -> None:
    begin = before_s = time.monotonic()
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    while sender.is_alive():
        oldest: list[list[float]] = []
        end_s = before_s + min(STEP_S, settings["seconds"] / 2)
        while sender.is_alive() and time.monotonic() < end_s:
            sender.join(min(LOOK_S, max(end_s - time.monotonic(), 0)))
            oldest.append(topics.ages_s())
        now_s, now = time.monotonic(), {name: cpu_s(pid) for name, pid in pids.items()}
        cores = {f"{name}_cores": round((now[name] - before[name]) / (now_s - before_s), 3) for name in pids}
        before_s, before = now_s, now
        ages = {
            "age_s_median": round(median(median(each) for each in oldest), 1),
            "age_s_max": round(max(map(max, oldest)), 1),
        }
        pss = sum(map(pss_bytes, tree(pids["jobs"]))) // 2**20
        emit("topic tables", now_s - begin, "s", settings, **cores, **ages, jobs_pss_mib=pss, lake_files=files_of(lake))


def _wait(topics: Topics, jobs: JobsProcess) -> float:
    """Wait until the tables hold everything; for how long."""
    begin_s = time.monotonic()
    while any(topics.ages_s()):
        jobs.check()
        if time.monotonic() > begin_s + _WAIT_S_MAX:
            raise TimeoutError("the tables don't come up to the log")
        time.sleep(0.2)
    return time.monotonic() - begin_s


def main() -> None:
    chosen = sizes(__doc__, minutes=(5.0, 0.1), rate=(1000, 50), topics=(100, 3))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        lake = folder / "lake"
        process = stack.enter_context(gateway(folder / "data"))
        topics = Topics(process.url, lake, chosen.topics)
        jobs = stack.enter_context(all_jobs(process.url, lake))
        say(f"topic tables: all jobs, ready after {jobs.ready_s:.0f} s")
        settings = {"topics": chosen.topics, "rate": chosen.rate, "seconds": chosen.minutes * 60}
        sender = threading.Thread(target=topics.send, args=(chosen.rate, settings["seconds"]), daemon=True)
        sender.start()
        _watch(topics, sender, {"gateway": process.pid, "jobs": jobs.pid}, lake, settings)
        left_s = _wait(topics, jobs)
        topics.check()
        emit("topic tables, all held after", left_s, "s", settings, sent=sum(topics.stored.values()))


if __name__ == "__main__":
    main()
