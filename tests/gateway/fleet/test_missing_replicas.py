"""A leader that goes on without a replica says so, whoever let that one go, until it is back or was removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from lakemq.testing import start_gateway
from tests.gateway.fleet.electing import PATIENT, STILL_S, SYNC, replicas
from tests.gateway.fleet.following import SMALL, broker_of, start_follower
from tests.gateway.fleet.test_in_sync import number
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

QUICK = {"gateway__wait_ms_max": 500}


def says(http: httpx.Client, *missing: int) -> bool:
    """Whether it leads, and says in each way that just these are missing."""
    ready, said = http.get("/readyz"), http.get("/v1/broker")
    if not (ready.is_success and said.is_success and said.json()["role"] == "primary"):
        return False
    if number(http, "lakemq_missing_replicas") != len(missing):
        return False
    lines = [f"replica {each} is no longer in sync" for each in missing]
    return (said.json()["missing"], ready.json()["degraded"]) == (list(missing), lines)


def named_by_sends(http: httpx.Client) -> set[str | None]:
    """What the answers to sends name: to raw ones, without ASGI and with it, to JSON, to halves of either form."""
    sends: list[tuple[str, dict[str, Any]]] = [
        ("t/messages", {"content": b"raw"}),
        ("t/messages", {"content": iter([b"ra", b"w"])}),
        ("t/messages", {"content": b"raw", "params": {"ack": "sync"}}),
        ("t/messages", {"json": {"messages": [{"body": "json"}]}, "headers": {"Idempotency-Key": "k"}}),
        ("t/transactions", {"content": b"half", "params": {"producer_group": "g"}}),
        ("t/transactions", {"json": {"messages": [{"body": "half"}]}, "params": {"producer_group": "g"}}),
    ]
    answers = [http.post(f"/v1/topics/{path}", **content) for path, content in sends]
    assert [each.status_code for each in answers] == [200] * len(sends)
    return {each.headers.get("lakemq-missing-replicas") for each in answers}


@begins_again_after(STILL_S)
def test_who_takes_the_place_of_a_leader_says_that_this_one_is_missing_until_it_is_back(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        assert says(fleet.http(0))
        assert named_by_sends(fleet.http(0)) == {None}
        fleet.kill(0)
        assert fleet.leader() == 1
        wait_until(lambda: says(fleet.http(1), 0))
        assert named_by_sends(fleet.http(1)) == {"0"}
        fleet.stop(1)
        fleet.start(1)
        wait_until(lambda: says(fleet.http(1), 0))
        fleet.start(0)
        fleet.in_sync(0, 1)
        wait_until(lambda: says(fleet.http(1)))
        assert named_by_sends(fleet.http(1)) == {None}


@begins_again_after(STILL_S)
def test_a_replica_that_was_removed_is_missing_for_no_later_leader(tmp_path: Path) -> None:
    with replicas(tmp_path, **SYNC) as fleet:
        fleet.kill(1)
        wait_until(lambda: says(fleet.http(0), 1))
        version = broker_of(fleet.http(0))["replication"]["record_version"]
        fleet.stop(0)
        fleet.start(0)
        wait_until(lambda: says(fleet.http(0), 1))
        assert named_by_sends(fleet.http(0)) == {"1"}
        fleet.http(0).post("/v1/broker/remove", json={"replica": 1}).raise_for_status()
        assert says(fleet.http(0))
        assert named_by_sends(fleet.http(0)) == {None}
        wait_until(lambda: broker_of(fleet.http(0))["replication"]["record_version"] > version + 1)
        fleet.stop(0)
        fleet.start(0)
        wait_until(lambda: says(fleet.http(0)))


def test_a_static_leader_that_starts_without_its_follower_says_so(tmp_path: Path) -> None:
    options = {**SMALL, "replication__silent_ms": 2_000}
    with start_gateway(tmp_path / "primary", **options) as gateway, connect(gateway) as leads:
        produce(leads, "t", "0")
        with start_follower(tmp_path / "follower", gateway.url, **QUICK):
            wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
        wait_until(lambda: says(leads, 1))
    with start_gateway(tmp_path / "primary", **options) as gateway, connect(gateway) as leads:
        assert says(leads, 1)
        leads.post("/v1/broker/remove", json={"replica": 1}).raise_for_status()
        assert says(leads)
