"""A broker whose leader was set by its settings comes to have one that is elected, with its log and its follower."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from lakemq.testing import start_gateway
from tests.gateway.fleet.electing import PATIENT, STILL_S, Replicas, role_of
from tests.gateway.fleet.following import SMALL, broker_of, start_follower, wait_for
from tests.gateway.http_client import connect, produce, pull_all
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after


@contextmanager
def static_pair(directory: Path) -> Generator[httpx.Client]:
    """A primary and its follower, which has the one message that there is; asks the primary."""
    with (
        start_gateway(directory / "0", **SMALL) as primary,
        start_follower(directory / "1", primary.url) as follower,
        connect(primary) as leads,
        connect(follower) as follows,
    ):
        produce(leads, "t", "static")
        wait_for(follows, leads)
        yield leads


@begins_again_after(STILL_S)
def test_a_static_primary_and_its_follower_elect_from_then_on(tmp_path: Path) -> None:
    with static_pair(tmp_path) as leads:
        wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
        log_id, epoch = broker_of(leads)["log_id"], broker_of(leads)["epoch"]
    fleet = Replicas(tmp_path, **PATIENT)
    try:
        fleet.start(1)  # it waits: replica 0 begins the record
        leads = fleet.start(0)
        fleet.in_sync(0, 1)
        assert (broker_of(leads)["log_id"], broker_of(leads)["role"]) == (log_id, "primary")
        (placed,) = produce(leads, "t", "elected")
        fleet.kill(0)
        assert fleet.leader() == 1
        assert broker_of(fleet.http(1))["epoch"] > epoch
        (later,) = produce(fleet.http(1), "t", "switched")
        assert placed["position"] < later["position"] < placed["position"] + 100
        again = fleet.start(0)
        wait_until(lambda: role_of(again) == "follower")
        fleet.in_sync(0, 1)
        assert [each["body"] for each in pull_all(fleet.http(1), "t")] == ["static", "elected", "switched"]
    finally:
        fleet.close()


@begins_again_after(STILL_S)
def test_a_primary_that_was_killed_as_a_static_one_leads_on_with_a_follower_that_has_less(tmp_path: Path) -> None:
    """It may have lost what it had not synced, so it begins an epoch of its own: the record is of that one."""
    with start_gateway(tmp_path / "0", **SMALL, storage__memory_survives=False) as primary, connect(primary) as leads:
        produce(leads, "t", "static")
        with start_follower(tmp_path / "1", primary.url) as follower, connect(follower) as follows:
            wait_for(follows, leads)
        produce(leads, "t", "at the primary alone")
        epoch = broker_of(leads)["epoch"]
        primary.kill()
    fleet = Replicas(tmp_path, **PATIENT, storage__memory_survives=False)
    try:
        leads = fleet.start(0)
        wait_until(lambda: role_of(leads) == "primary")
        assert broker_of(leads)["epoch"] > epoch
        fleet.start(1)
        fleet.in_sync(0, 1)
        produce(leads, "t", "elected")
        bodies = [each["body"] for each in pull_all(leads, "t")]
        assert bodies[-1] == "elected"
        fleet.kill(0)
        assert fleet.leader() == 1
        assert [each["body"] for each in pull_all(fleet.http(1), "t")] == bodies
    finally:
        fleet.close()


@begins_again_after(STILL_S)
def test_a_static_follower_that_leads_by_order_has_followers_that_come_into_sync(tmp_path: Path) -> None:
    """It knew of no record, and its log of an epoch: the record's was the lower one, and no follower's was that."""
    with static_pair(tmp_path):
        pass
    shutil.rmtree(tmp_path / "0")
    fleet = Replicas(tmp_path, **PATIENT)
    try:
        one = fleet.start(1)
        wait_until(lambda: role_of(one) == "follower")
        elected = one.post("/v1/broker/elect", json={"unclean": True})
        assert elected.is_success, elected.text
        assert fleet.leader() == 1
        assert broker_of(one)["epoch"] == broker_of(one)["election"]["leader_epoch"]
        fleet.start(0)
        fleet.in_sync(0, 1)
    finally:
        fleet.close()
