"""What waits to be routed, and traffic that makes the routing queries warm."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from benchmarks import paced, transact
from benchmarks.broker import gateway, make_topic
from benchmarks.jobs import JobsProcess, all_jobs
from benchmarks.results import say
from benchmarks.wire import ask
from lakemq.testing import GatewayProcess

DEFAULT_LEAD_MS = 10_000
_LOOK_S = 0.05


def waiting(url: str) -> dict[str, int]:
    """How many messages of each kind wait."""
    now = ask(url, "GET", "/v1/routing")
    return {
        "delays": now["delay"]["waiting"],
        "transactions": now["transactions"]["open"],
        "nacks": now["retry"]["waiting"],
    }


def wait_routed(url: str, seconds_max: float, jobs: JobsProcess | None = None) -> None:
    """Wait until nothing waits any more; raises `TimeoutError`, or when the jobs have ended."""
    deadline = time.monotonic() + seconds_max
    while any((now := waiting(url)).values()):
        if jobs is not None:
            jobs.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all is routed within {seconds_max} s: {now}")
        time.sleep(_LOOK_S)


def warm(url: str, seconds: float, jobs: JobsProcess) -> None:
    """Send some of all three kinds for so long, and wait until they are routed."""
    make_topic(url, "warm", 4)
    delayed = paced.start(url, "warm", 100, seconds, lakemq_delay_level="1")
    resolved = transact.start(url, "warm", 4, 0, seconds, rate=50)
    for process in (delayed, resolved):
        answer: dict[str, Any] = json.loads(process.communicate(timeout=seconds + 60)[0])
        if answer["errors"]:
            raise RuntimeError(f"errors while warming up: {answer}")
    first = ask(url, "GET", "/v1/topics/warm/queues/0/messages?offset=0&max=100")["messages"]
    nacks = [
        {"message_id": each["message_id"], "delay_level": 1 if number % 2 else -1} for number, each in enumerate(first)
    ]
    if nacks:
        ask(url, "POST", "/v1/groups/warm/nacks", {"client_id": "bench", "messages": nacks})
    wait_routed(url, 180, jobs)


@contextlib.contextmanager
def routed(folder: Path, lead_ms: int, warm_s: float) -> Generator[tuple[GatewayProcess, JobsProcess]]:
    """A gateway with this lead, and all jobs, warm, beside it; on the files in `folder`. Without a lead it has no
    grace either: the query alone decides."""
    options = {"routing__lead_ms": lead_ms} | ({} if lead_ms else {"routing__grace_ms": -1})
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(gateway(folder / "data", **options))
        say(f"routing: all jobs, lead {lead_ms} ms")
        jobs = stack.enter_context(all_jobs(process.url, folder / "lake"))
        say(f"routing: ready after {jobs.ready_s:.0f} s")
        warm(process.url, warm_s, jobs)
        yield process, jobs
        jobs.check()
