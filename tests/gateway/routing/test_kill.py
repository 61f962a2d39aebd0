"""kill -9 of the gateway, of the Spark driver, of both, while all kinds of routing flow; an hour
that passes while Spark is away; checkpoints that are deleted; with and without a lead. Another process
writes the lake all the time: that is no matter of routing's.

The quick form kills once, and each new gateway has the other lead. The long form also keeps to one:
LAKEMQ_TEST_KILLS=30. LAKEMQ_TEST_SEED repeats the instants of a failure as near as a machine allows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce, pull_all
from tests.gateway.routing.flow import GROUP, PRODUCERS, TOPIC, Flow
from tests.ports import free_port
from tests.quick_spark import QUICK_SPARK

KILLS = int(os.environ.get("LAKEMQ_TEST_KILLS", "1"))
SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))
HOUR_MS = 3_600_000
WAIT_S_MAX = 300
JOBS = ("delay", "transaction", "retry")
FLOWED = 5
LEADS_MS = [(0, 2_000)] if KILLS == 1 else [(0, 2_000), (0,), (2_000,)]


class Killed:
    """A gateway at one address that is killed and started again, with the next of the leads."""

    def __init__(self, data_dir: Path, leads_ms: tuple[int, ...]) -> None:
        self._data_dir = data_dir
        self._options: dict[str, object] = {
            "gateway__port": free_port(),
            "routing__grace_ms": -1,  # the queries alone
            "transactions__timeout_ms": 1_000,
            "transactions__check_interval_ms": 500,
            "transactions__check_max": 2,
        }
        self._leads_ms = cycle(leads_ms)
        self.process = self._start(0)

    def _start(self, offset_ms: int) -> GatewayProcess:
        lead: dict[str, Any] = {"routing__lead_ms": next(self._leads_ms)}
        return start_gateway(self._data_dir, clock_offset_ms=offset_ms, **self._options, **lead)

    def kill(self, offset_ms: int = 0) -> None:
        """kill -9, and begin again."""
        self.process.kill()
        self.process = self._start(offset_ms)


@contextlib.contextmanager
def driver(url: str, lake: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """`lakemq jobs delay transaction retry` in a process of its own, killed at the end."""
    command = [sys.executable, "-m", "lakemq", "jobs", *JOBS, "--broker", url, "--lake", str(lake)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env=os.environ | QUICK_SPARK)
        try:
            wait_for(lambda: "wheel query: ready" in log.read_text(), process, log)
            yield process
        finally:
            process.kill()
            process.wait()


def wait_for(done: Any, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not done():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


def nothing_waits(http: httpx.Client) -> bool:
    routing = http.get("/v1/routing").json()
    waiting = routing["delay"]["waiting"], routing["transactions"]["open"], routing["retry"]["waiting"]
    return waiting == (0, 0, 0) and routing["receive"]["out"] == 0


def has_flowed(flow: Flow) -> bool:
    """Whether there was something of each kind."""
    return min(len(flow.scheduled), len(flow.resolved), len(flow.nacked), len(flow.acked)) >= FLOWED


def all_acknowledged(http: httpx.Client, flow: Flow) -> bool:
    """Acknowledges what is there; whether all that was to be received is acknowledged now."""
    while flow.receive_some(http):
        pass
    return flow.acked >= flow.to_receive


def kill_now_and_then(gateway: Killed, rng: random.Random, stop: threading.Event) -> None:
    while not stop.wait(rng.uniform(1, 6)):
        gateway.kill()


@pytest.mark.timeout(700 + 120 * KILLS)
@pytest.mark.parametrize("leads_ms", LEADS_MS)
def test_each_cause_has_its_effect_once_whatever_dies(tmp_path: Path, leads_ms: tuple[int, ...]) -> None:
    rng = random.Random(SEED)
    lake, log = tmp_path / "lake", tmp_path / "jobs.log"
    lake.mkdir()
    gateway = Killed(tmp_path / "log", leads_ms)
    url = gateway.process.url
    writer = (lake / "_lock").open("wb")
    try:
        fcntl.lockf(writer, fcntl.LOCK_EX)
        with connect(gateway.process) as http:
            delays = [{"body": f"h{number}", "delay_ms": rng.randint(1, HOUR_MS)} for number in range(100)]
            produce(http, "hour", *delays)
        flow: Flow | None = None
        for number in range(KILLS):
            with driver(url, lake, log) as process:
                flow = flow or Flow(url, SEED)  # not while the first driver starts, which it would hold up
                stop = threading.Event()
                killer = threading.Thread(target=kill_now_and_then, args=(gateway, rng, stop))
                if number % 2 == 0:
                    killer.start()
                try:
                    wait_for(partial(has_flowed, flow), process, log)
                    time.sleep(rng.uniform(0, 4))
                    process.kill()
                    process.wait()
                finally:
                    stop.set()
                    if killer.ident is not None:
                        killer.join()
            shutil.rmtree(lake / "_checkpoints" / "wheel", ignore_errors=True)
        assert flow is not None
        flow.stop()
        gateway.kill(HOUR_MS)
        with driver(url, lake, log) as process, connect(gateway.process) as http:
            wait_for(lambda: nothing_waits(http), process, log)
            # An empty answer needn't be the end: what is acknowledged too late comes once more, a moment later.
            wait_for(partial(all_acknowledged, http, flow), process, log)
            check(http, flow, f"(LAKEMQ_TEST_SEED={SEED}, leads {leads_ms})")
            process.terminate()
            assert process.wait(WAIT_S_MAX) == 0, log.read_text()
    finally:
        writer.close()
        gateway.process.stop()


def check(http: httpx.Client, flow: Flow, seed: str) -> None:
    """Every promise was kept once."""
    messages = pull_all(http, TOPIC)
    bodies = Counter(message["body"] for message in messages)
    assert not [body for body, count in bodies.items() if count > 1], seed
    assert not [body for body in flow.scheduled if not bodies[body]], seed
    early = [m for m in messages if m["store_time_ms"] < m.get("deliver_at_ms", 0)]
    assert not early, seed
    hour = Counter(message["body"] for message in pull_all(http, "hour"))
    assert hour == Counter(f"h{number}" for number in range(100)), seed
    committed = {m["transaction_id"] for m in messages if "transaction_id" in m}
    given_up = Counter(m["transaction_id"] for m in _pull(http, "RMQ_SYS_TRANS_CHECK_MAX_TIME"))
    for transaction_id in flow.begun:
        resolution = flow.resolved.get(transaction_id)
        if resolution is not None or transaction_id not in flow.maybe_resolved:
            assert (transaction_id in committed) == (resolution == "commit"), (transaction_id, seed)
            assert given_up[transaction_id] == (resolution is None), (transaction_id, seed)
    retried = Counter(m["origin_message_id"] for m in _pull(http, f"%25RETRY%25{GROUP}"))
    dead = Counter(m["origin_message_id"] for m in _pull(http, f"%25DLQ%25{GROUP}"))
    assert max([0, *(retried + dead).values()]) <= 1, seed
    for message_id, is_dead in flow.nacked.items():
        assert (retried[message_id], dead[message_id]) == (int(not is_dead), int(is_dead)), (message_id, seed)
    check_causes(http, seed)
    assert http.get(f"/v1/producer-groups/{PRODUCERS}/checks").json() == {"checks": []}
    assert has_flowed(flow), "nothing flowed"


def check_causes(http: httpx.Client, seed: str) -> None:
    """No cause has two effects, in the whole log."""
    end = http.get("/v1/broker").json()["max_position"]
    causes: Counter[int] = Counter()
    position = 0
    while position < end:
        query = {"from": position, "to": end, "columns": "cause"}
        page = http.get("/v1/log/messages", params=query)
        causes.update(cause for cause in _column(page.content) if cause is not None)
        position = int(page.headers["lakemq-next-position"])
    assert not [cause for cause, count in causes.items() if count > 1], seed


def _column(payload: bytes) -> list[Any]:
    return pa.ipc.open_stream(payload).read_all().column(0).to_pylist()


def _pull(http: httpx.Client, topic: str) -> list[dict[str, Any]]:
    return pull_all(http, topic) if http.get(f"/v1/topics/{topic}").status_code == 200 else []
