"""What waits while Spark is killed, and how late first checks are. `python -m benchmarks.spark_away`.

All jobs, warm, default lead and grace. First `--halves` halves are stored, one each 50 ms, and nobody resolves them:
told is how long after its time-out each was handed to its producer group. Then `--messages` messages are scheduled
over ten seconds, the jobs are killed before the first is due, and told is how late each was stored in its topic.
`--jobs 0`: that alone, and with no job from the beginning, which takes half a minute.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import orjson

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed
from benchmarks.wire import Connection, ask, build

TIMEOUT_MS = 6_000
"""`transactions.timeout_ms`, as it is by default."""
GROUP, TOPIC = "checked", "away"
FIRST_MS, SPREAD_MS = 8_000, 10_000
BEYOND_LEAD_MS = DEFAULT_LEAD_MS + 1_000
STARTED_S = 6.0
"""A gateway leaves the queries a grace from its start on."""
WAIT_S_MAX = 120


class Checks(threading.Thread):
    """Takes checks until so many have come; when each half, by its transaction, was handed out."""

    def __init__(self, url: str, wanted: int) -> None:
        super().__init__(daemon=True)
        self._url, self._wanted = url, wanted
        self.taken_s: dict[str, float] = {}

    def run(self) -> None:
        connection = Connection(self._url)
        request = build("GET", f"/v1/producer-groups/{GROUP}/checks?client_id=bench&wait_ms=5000")
        while len(self.taken_s) < self._wanted:
            checks = orjson.loads(connection.exchange(request).body)["checks"]
            now = time.monotonic()
            for each in checks:
                self.taken_s.setdefault(each["transaction_id"], now)


def _first_checks(url: str, halves: int) -> dict[str, Any]:
    make_topic(url, GROUP, 1)
    checks = Checks(url, halves)
    checks.start()
    begun_s: dict[str, float] = {}
    for _ in range(halves):
        answer = ask(
            url, "POST", f"/v1/topics/{GROUP}/transactions?producer_group={GROUP}", {"messages": [{"body": "x"}]}
        )
        begun_s[answer["transactions"][0]["transaction_id"]] = time.monotonic()
        time.sleep(0.05)
    checks.join(WAIT_S_MAX)
    late = [int((taken - begun_s[each]) * 1e9) - TIMEOUT_MS * 10**6 for each, taken in checks.taken_s.items()]
    if len(late) < halves:
        raise TimeoutError(f"{len(late)} of {halves} halves were checked")
    for each in begun_s:
        ask(url, "POST", f"/v1/transactions/{each}", {"producer_group": GROUP, "resolution": "rollback"})
    return {"halves": halves, "early": sum(each < 0 for each in late), **latencies(late)}


def _schedule(url: str, count: int, first_ms: int = FIRST_MS) -> None:
    make_topic(url, TOPIC, 1)
    now_ms = int(time.time() * 1000)
    dues = [now_ms + first_ms + number * SPREAD_MS // count for number in range(count)]
    messages = [{"body": str(number), "deliver_at_ms": due} for number, due in enumerate(dues)]
    ask(url, "POST", f"/v1/topics/{TOPIC}/messages", {"messages": messages})


def _late(url: str, count: int) -> dict[str, Any]:
    """How late the messages were stored, once all are."""
    path = f"/v1/topics/{TOPIC}/queues/0/messages?offset=0&max={count}"
    end = time.monotonic() + WAIT_S_MAX
    while len(found := ask(url, "GET", path)["messages"]) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(found)} of {count} messages came")
        time.sleep(0.2)
    late = [(each["store_time_ms"] - each["deliver_at_ms"]) * 10**6 for each in found]
    if len({each["body"] for each in found}) != count:
        raise RuntimeError("messages came twice")
    return {"early": sum(each < 0 for each in late), **latencies(late)}


def _without_jobs(count: int) -> None:
    with scratch() as folder, gateway(folder / "data") as process:
        say("spark_away: no jobs")
        time.sleep(STARTED_S)
        _schedule(process.url, count, BEYOND_LEAD_MS)
        late = _late(process.url, count)
        emit("late without any job", late["p50_ms"], "ms", {"messages": count}, **late)


def main() -> None:
    chosen = sizes(__doc__, halves=(100, 10), messages=(1_000, 100), warm_seconds=(10, 1), jobs=(1, 1))
    _without_jobs(chosen.messages)
    if not chosen.jobs:
        return
    with scratch() as folder, routed(folder, DEFAULT_LEAD_MS, chosen.warm_seconds) as (process, jobs):
        say("spark_away: first checks")
        checks = _first_checks(process.url, chosen.halves)
        emit(
            "first check after its time", checks["p50_ms"], "ms", {"jobs": "all", "lead_ms": DEFAULT_LEAD_MS}, **checks
        )
    with scratch() as folder, routed(folder, DEFAULT_LEAD_MS, chosen.warm_seconds) as (process, jobs):
        say("spark_away: killed")
        _schedule(process.url, chosen.messages)
        os.killpg(jobs.pid, signal.SIGKILL)
        jobs.stop()
        late = _late(process.url, chosen.messages)
        emit("late with Spark killed", late["p50_ms"], "ms", {"messages": chosen.messages}, **late)


if __name__ == "__main__":
    main()
