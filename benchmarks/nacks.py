"""100,000 nacks within a minute, with all jobs running: `python -m benchmarks.nacks`.

Requests of 100, every other message with level 1 and with -1, at an even rate from four
connections. The lag is the time from the last answer until nothing waits any more, of which a
message of level 1 waits one second.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.bodies import arrow_content, random_bodies
from benchmarks.broker import make_topic, scratch
from benchmarks.cpu import Meter
from benchmarks.drain import check_once, drain
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed, wait_routed, waiting
from benchmarks.wire import ARROW, Connection, build

BATCH = 100
BODY_BYTES = 1024
CONNECTIONS = 4
GROUP = "workers"
LEVELS = (1, -1)
PRODUCED = 5000
"""Messages a request, when they are made."""


def _produce(url: str, count: int) -> list[str]:
    """Make messages; their ids."""
    make_topic(url, "nacked", 4)
    connection = Connection(url)
    ids: list[str] = []
    while len(ids) < count:
        bodies = random_bodies(min(PRODUCED, count - len(ids)), BODY_BYTES)
        content = arrow_content({"body": pa.array(bodies, pa.binary())})
        answer = connection.exchange(build("POST", "/v1/topics/nacked/messages", content, content_type=ARROW))
        stored = orjson.loads(answer.body)
        first = stored["first_position"]
        ids += [f"{stored['message_id_prefix']}{position}" for position in range(first, first + stored["count"])]
    connection.close()
    return ids


def _request(ids: list[str]) -> bytes:
    messages = [{"message_id": message_id, "delay_level": LEVELS[number % 2]} for number, message_id in enumerate(ids)]
    content = orjson.dumps({"client_id": "bench", "messages": messages})
    return build("POST", f"/v1/groups/{GROUP}/nacks", content, content_type="application/json")


class _Nacker:
    """Sends each request when it is due, or as soon as a connection is free."""

    def __init__(self, url: str, requests: list[bytes], seconds: float) -> None:
        self._url = url
        self._requests = requests
        self._interval_s = seconds / len(requests)
        self._numbers = itertools.count()
        self._begin = 0.0
        self._refused: list[dict[str, str]] = []
        self.taken_ns: list[int] = []
        self.failures: list[BaseException] = []

    def _send(self) -> None:
        connection = Connection(self._url)
        try:
            while (number := next(self._numbers)) < len(self._requests) and not self.failures:
                due = self._begin + number * self._interval_s
                time.sleep(max(due - time.monotonic(), 0))
                results = orjson.loads(connection.exchange(self._requests[number]).body)["messages"]
                self.taken_ns.append(int((time.monotonic() - due) * 1e9))
                self._refused += [result for result in results if result["status"] != "ok"]
        except BaseException as error:  # noqa: BLE001 (raised by `run`, in the main thread)
            self.failures.append(error)
        finally:
            connection.close()

    def run(self) -> float:
        """Send all; how many seconds it took."""
        self._begin = time.monotonic()
        threads = [threading.Thread(target=self._send) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]
        if self._refused:
            raise RuntimeError(f"{len(self._refused)} nacks were refused: {self._refused[:3]}")
        return time.monotonic() - self._begin


def _measure(lead_ms: int, chosen: Any) -> None:
    with scratch() as folder, routed(folder, lead_ms, chosen.warm_seconds) as (process, jobs):
        url = process.url
        ids = _produce(url, chosen.nacks)
        requests = [_request(ids[first : first + BATCH]) for first in range(0, len(ids), BATCH)]
        say(f"nacks: {len(ids)} in {chosen.seconds} s, lead {lead_ms} ms")
        nacker = _Nacker(url, requests, chosen.seconds)
        with Meter(process.pid, jobs.pid) as meter:
            nacking_s = nacker.run()
            left = {f"{name}_at_the_end": count for name, count in waiting(url).items()}
            begin = time.monotonic()
            wait_routed(url, chosen.lag_seconds_max, jobs)
            lag_s = time.monotonic() - begin
        retried, dead = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
        check_once(drain(url, retried), retried, len(ids[::2]))
        check_once(drain(url, dead), dead, len(ids[1::2]))
    settings = {"nacks": len(ids), "batch": BATCH, "seconds": chosen.seconds, "connections": CONNECTIONS}
    settings |= {"levels": LEVELS, "lead_ms": lead_ms, "jobs": "all", "body_bytes": BODY_BYTES}
    rate = {"nacks_per_s": round(len(ids) / nacking_s), "nacking_s": round(nacking_s, 2)}
    more = {**rate, **left, **latencies(nacker.taken_ns), **meter.spent()}
    emit(f"nacks, lag after the last, lead {lead_ms} ms", lag_s, "s", settings, **more)


def main() -> None:
    chosen = sizes(
        __doc__, nacks=(100_000, 2_000), seconds=(60.0, 2.0), warm_seconds=(10, 1), lag_seconds_max=(120, 60)
    )
    for lead_ms in (DEFAULT_LEAD_MS, 0):
        _measure(lead_ms, chosen)


if __name__ == "__main__":
    main()
