"""A leader that hands over while a thread writes a large frame."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from lakemq.gateway.process import exchange
from lakemq.storage.disk.files import Files
from lakemq.storage.log.layout import LARGE_BYTES
from tests.gateway.fleet.electing import role_of
from tests.gateway.fleet.embedding import STILL_S, replica
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.http_client import WAIT_S, produce, produce_arrow, pull_all
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

PATIENT_MS = 40_000
END_S = 0.5
ROWS = 5
BODY = "x" * (LARGE_BYTES // (ROWS - 1))


class SlowToWrite(Files):
    """While `writes` is not set a large frame waits in its thread; `comes`: one does."""

    def __init__(self) -> None:
        self.writes, self.comes = threading.Event(), threading.Event()

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        if threading.current_thread().name.startswith("log-writer"):
            self.comes.set()
            assert self.writes.wait(WAIT_S)
        return super().append(descriptor, parts)


@begins_again_after(STILL_S)
def test_what_a_thread_writes_as_a_leader_hands_over_is_in_the_next_one_s_log_if_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "END_S", END_S)
    patient = {"replication__silent_ms": PATIENT_MS, "replication__confirm_ms_max": 2 * PATIENT_MS}
    files, options = SlowToWrite(), {"replication__ack": "async", **patient}
    with (
        replica(tmp_path, 0, files, **options) as leader,
        ThreadPoolExecutor(2) as pool,
    ):
        wait_until(lambda: role_of(leader) == "primary")
        produce(leader, "t", "0")
        with replica(tmp_path, 1, Files(), **options) as follower:
            wait_until(lambda: broker_of(leader).get("in_sync") == [0, 1])
            large = pool.submit(produce_arrow, leader, "t", {"body": [BODY] * ROWS})
            assert files.comes.wait(WAIT_S)
            switch = pool.submit(leader.post, "/v1/broker/switch", json={"replica": 1})
            wait([switch], END_S + 1.5)  # so long it waits for requests; who doesn't wait for the thread is done then
            files.writes.set()
            assert switch.result().json()["leader"] == 1, switch.result().text
            large.result()
            wait_until(lambda: role_of(follower) == "primary")
            assert len(pull_all(follower, "t")) == 1 + ROWS
            wait_until(lambda: role_of(leader) == "follower")
            wait_for(leader, follower)
