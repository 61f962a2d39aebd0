"""Transactions: by single requests, in batches, and from commit to visible. `python -m benchmarks.transactions`.

Single requests: each transaction is the POST of a half and the POST of its commit, 1 KiB bodies, a
closed loop on kept connections, the load in one process. Batches: Arrow requests of 1,000 halves,
each followed by one request with their 1,000 resolutions. Commit to visible: from when the commit
was sent until the long poll of a receiver of all queues has the message, parsed.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import orjson
import pyarrow as pa

from benchmarks import receiver, transact
from benchmarks.bodies import arrow_content, random_bodies
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter
from benchmarks.jobs import JobsProcess
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed, wait_routed
from benchmarks.wire import ARROW, Connection, ask, build

QUEUES = 4
BATCH = 1000
BODY_BYTES = 1024
_SLOWEST_S = {True: 5.0, False: 15.0}
"""By whether the gateway anticipates: a receiver that has waited so long has had the last message."""


def _count(url: str, topic: str) -> int:
    return sum(queue["max_offset"] for queue in ask(url, "GET", f"/v1/topics/{topic}")["queues"])


def _check(url: str, topic: str, answer: dict[str, Any], jobs: JobsProcess | None = None) -> None:
    """All that were begun were committed, and are in their topic once."""
    wait_routed(url, 60, jobs)
    counts = {"begun": answer["begun"], "committed": answer["committed"], "visible": _count(url, topic)}
    if answer["errors"] or len(set(counts.values())) > 1:
        raise RuntimeError(f"transactions failed: {answer['errors']} errors, {counts}")


def _single(connections: int, seconds: float) -> None:
    """The highest rate by a request for each step; nobody receives."""
    say(f"transactions: single requests, {connections} connections")
    with scratch() as folder, gateway(folder) as process:
        make_topic(process.url, "single", QUEUES)
        warm_s = max(seconds / 4, 1)
        with Meter(process.pid) as meter:
            load = transact.start(process.url, "single", connections, warm_s, seconds)
            answer = json.loads(load.communicate(timeout=warm_s + seconds + 60)[0])
        _check(process.url, "single", answer)
    spent = meter.spent()
    limited_by = "client" if spent["client_cpu_s"] > 0.9 * meter.wall_s else "server"
    settings = {"connections": connections, "seconds": seconds, "body_bytes": BODY_BYTES, "lead_ms": DEFAULT_LEAD_MS}
    what = f"transactions, single requests, {connections} connections"
    rate = answer["transactions_per_s"]
    emit(what, rate, "transactions/s", settings, limited_by=limited_by, **answer, **spent)


class _Batches:
    """Threads that send halves and their resolutions until a time; the counts are of the window."""

    def __init__(self, url: str, warm_s: float, seconds: float) -> None:
        self._url = url
        bodies = pa.array(random_bodies(BATCH, BODY_BYTES), pa.binary())
        target = f"/v1/topics/batches/transactions?producer_group={transact.GROUP}"
        self._halves = build("POST", target, arrow_content({"body": bodies}), content_type=ARROW)
        self._begin = time.monotonic() + warm_s
        self._end = self._begin + seconds
        self.taken_ns: list[int] = []
        self.committed = 0
        self.failures: list[BaseException] = []

    def send(self) -> None:
        """One connection."""
        connection = Connection(self._url)
        try:
            while (begin := time.monotonic()) < self._end:
                self._transact(connection)
                self.committed += BATCH
                if self._begin <= (now := time.monotonic()) <= self._end:
                    self.taken_ns.append(int((now - begin) * 1e9))
        except BaseException as error:  # noqa: BLE001 (raised by `run`, in the main thread)
            self.failures.append(error)
        finally:
            connection.close()

    def _transact(self, connection: Connection) -> None:
        answer = orjson.loads(connection.exchange(self._halves).body)
        resolutions = [
            {"transaction_id": each["transaction_id"], "resolution": "commit"} for each in answer["transactions"]
        ]
        content = orjson.dumps({"producer_group": transact.GROUP, "resolutions": resolutions})
        request = build("POST", "/v1/transactions", content, content_type="application/json")
        results = orjson.loads(connection.exchange(request).body)["results"]
        if any(result["status"] != "ok" for result in results):
            raise RuntimeError(f"a resolution was refused: {results[:3]}")

    def run(self, connections: int) -> None:
        """Send on so many connections until the end; raises what failed in one."""
        threads = [threading.Thread(target=self.send) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]


def _batches(connections: int, seconds: float) -> None:
    say(f"transactions: batches, {connections} connections")
    with scratch() as folder, gateway(folder) as process:
        make_topic(process.url, "batches", QUEUES)
        with Meter(process.pid) as meter:
            batches = _Batches(process.url, max(seconds / 4, 1), seconds)
            batches.run(connections)
        committed = batches.committed
        _check(process.url, "batches", {"begun": committed, "committed": committed, "errors": 0})
    rate = len(batches.taken_ns) * BATCH / seconds
    settings = {"connections": connections, "seconds": seconds, "batch": BATCH, "body_bytes": BODY_BYTES}
    what = f"transactions, batches, {connections} connections"
    emit(what, rate, "transactions/s", settings, **latencies(batches.taken_ns), **meter.spent())


def _visible(url: str, pids: list[int], what: str, settings: dict[str, Any], jobs: JobsProcess | None = None) -> None:
    """From commit to visible; `settings` has connections, rate (0: full load) and seconds."""
    say(f"transactions: {what}")
    topic = "visible-" + what.replace(" ", "-").replace(",", "").replace("/", "-")
    make_topic(url, topic, QUEUES)
    connections, rate, seconds = settings["connections"], settings["rate"], settings["seconds"]
    warm_s = max(seconds / 4, 1)
    with Meter(*pids) as meter:
        taker = receiver.start(url, topic, QUEUES, _SLOWEST_S[settings["lead_ms"] > 0], "--numbers")
        time.sleep(1)
        load = transact.start(url, topic, connections, warm_s, seconds, rate, numbers=True)
        answer = json.loads(load.communicate(timeout=warm_s + seconds + 60)[0])
        received = orjson.loads(taker.communicate(timeout=180)[0])
    _check(url, topic, answer, jobs)
    seen: dict[int, int] = dict(received["taken"])
    sent: list[list[int]] = answer.pop("commits_sent")
    taken_ns = [seen[number] - sent_ns for number, sent_ns in sent if number in seen]
    more = {f"transaction_{name}": value for name, value in answer.items() if name.endswith("_ms")}
    more |= {name: value for name, value in answer.items() if not name.endswith("_ms")}
    settings |= {"body_bytes": BODY_BYTES, "queues": QUEUES}
    numbers = latencies(taken_ns)
    emit(f"commit to visible, {what}", numbers["p50_ms"], "ms", settings, **numbers, **more, **meter.spent())
    if not received["received"] == len(seen) == answer["committed"]:
        raise RuntimeError(f"{answer['committed']} were committed, {len(seen)} came, {received['received']} times")


def _all_visible(chosen: Any) -> None:
    paced = {"connections": 16, "rate": 200, "seconds": chosen.paced_seconds}
    full = {"connections": 32, "rate": 0, "seconds": chosen.seconds}
    alone = {"lead_ms": DEFAULT_LEAD_MS, "jobs": "none"}
    if chosen.seconds:
        with scratch() as folder, gateway(folder) as process:
            _visible(process.url, [process.pid], "full load, gateway alone", full | alone)
    if not chosen.paced_seconds:
        return
    for lead_ms in (DEFAULT_LEAD_MS, 0):
        with scratch() as folder, routed(folder, lead_ms, chosen.warm_seconds) as (process, jobs):
            pids, beside = [process.pid, jobs.pid], {"lead_ms": lead_ms, "jobs": "all"}
            _visible(process.url, pids, f"200/s, lead {lead_ms} ms, all jobs", paced | beside, jobs)
            if lead_ms and chosen.seconds:
                _visible(process.url, pids, f"full load, lead {lead_ms} ms, all jobs", full | beside, jobs)


def main() -> None:
    chosen = sizes(__doc__, seconds=(10, 1), paced_seconds=(20, 2), warm_seconds=(10, 1))
    if chosen.seconds:
        for connections in (32, 64):
            _single(connections, chosen.seconds)
        for connections in (2, 4):
            _batches(connections, chosen.seconds)
    _all_visible(chosen)


if __name__ == "__main__":
    main()
