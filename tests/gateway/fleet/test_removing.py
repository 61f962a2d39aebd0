"""Forgetting a replica that is gone for good: answered when the record has it, so that a later leader knows it too."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.fleet.electing import STILL_S, SYNC, replicas
from tests.gateway.fleet.following import SMALL, broker_of, degraded, start_follower
from tests.gateway.fleet.test_in_sync import waiting
from tests.gateway.http_client import connect, is_problem
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

QUICK = {**SMALL, "replication__silent_ms": 1_000, "replication__confirm_ms_max": 1_500}
PATIENT = {**QUICK, "replication__confirm_ms_max": 100_000}


class Bereft(NamedTuple):
    """A primary whose follower, replica 1, is gone, and its folder."""

    process: GatewayProcess
    http: httpx.Client
    folder: Path

    @property
    def recorded(self) -> list[int]:
        """Who is missing, as its record says."""
        return json.loads((self.folder / "IN_SYNC").read_bytes().partition(b"\n")[0])["missing"]

    def hold_record(self) -> Path:
        """The record can't be written while there is what is returned, a folder. The record is at rest."""
        obstacle = self.folder / "IN_SYNC.tmp"
        wait_until(lambda: _made(obstacle))
        return obstacle


def _made(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False  # it is being written
    return True


@contextmanager
def bereft(folder: Path, **options: Any) -> Generator[Bereft]:
    with start_gateway(folder / "primary", **options) as process, connect(process) as http:
        with start_follower(folder / "follower", process.url) as follower:
            wait_until(lambda: broker_of(http)["in_sync"] == [0, 1])
            follower.kill()
        wait_until(lambda: broker_of(http)["missing"] == [1])
        yield Bereft(process, http, folder / "primary")


def remove(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/broker/remove", json={"replica": 1})


def test_once_it_is_answered_the_record_has_it_whatever_becomes_of_the_leader(tmp_path: Path) -> None:
    with bereft(tmp_path, **PATIENT) as primary:
        assert primary.recorded == [1]
        assert remove(primary.http).json() == {"removed": 1, "in_sync": [0]}
        primary.process.kill()
        assert primary.recorded == []
    with start_gateway(tmp_path / "primary", **PATIENT) as again, connect(again) as http:
        assert broker_of(http)["missing"] == []
        assert degraded(http) == ""


def test_while_the_record_can_not_be_changed_that_is_answered_and_tried_on(tmp_path: Path) -> None:
    with bereft(tmp_path, **QUICK) as primary:
        obstacle = primary.hold_record()
        refused = remove(primary.http)
        assert is_problem(refused, 504, "not_confirmed")
        assert "the record doesn't have that yet: " in refused.json()["detail"]
        assert primary.recorded == [1]
        # Why is known once it was tried: after a standstill that may be later than the first answer.
        wait_until(lambda: "who is in sync can't be written down" in degraded(primary.http))
        again = remove(primary.http)
        assert is_problem(again, 504, "not_confirmed")
        assert "the record doesn't have that yet: who is in sync can't be written down" in again.json()["detail"]
        assert primary.recorded == [1]
        obstacle.rmdir()
        wait_until(lambda: primary.recorded == [])
        assert remove(primary.http).json() == {"removed": 1, "in_sync": [0]}


def test_who_waits_for_that_is_answered_as_the_leader_stops(tmp_path: Path) -> None:
    """It waited for as long as a write may, and so did the end of the process."""
    with bereft(tmp_path, **PATIENT) as primary:
        primary.hold_record()
        with waiting(lambda: remove(primary.http)) as asked:
            wait_until(lambda: "can't be written down" in degraded(primary.http))
            assert not asked.done()
            primary.process.stop()
            assert is_problem(asked.result(), 504, "not_confirmed")


@begins_again_after(STILL_S)
def test_where_leaders_are_elected_the_next_one_has_forgotten_it_at_once(tmp_path: Path) -> None:
    with replicas(tmp_path, **SYNC) as fleet:
        fleet.kill(1)
        wait_until(lambda: broker_of(fleet.http(0))["missing"] == [1])
        assert remove(fleet.http(0)).json() == {"removed": 1, "in_sync": [0]}
        fleet.kill(0)
        fleet.start(0)
        assert fleet.leader() == 0
        assert broker_of(fleet.http(0))["missing"] == []
