"""A leader dies, and another takes its place: nothing that was acknowledged is lost, and the old one follows."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.fleet.electing import SYNC, replicas, role_of
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.http_client import produce, pull_all
from tests.gateway.routing.asking import wait_until


def test_a_leader_that_is_killed_is_replaced_and_follows_when_it_is_back(tmp_path: Path) -> None:
    with replicas(tmp_path, **SYNC) as fleet:
        first = [each["position"] for each in produce(fleet.http(0), "t", "0", "1")]
        epoch = broker_of(fleet.http(0))["epoch"]
        fleet.kill(0)
        assert fleet.leader() == 1
        assert broker_of(fleet.http(1))["epoch"] > epoch
        (placed,) = produce(fleet.http(1), "t", "2")
        assert placed["position"] > max(first)
        again = fleet.start(0)
        wait_until(lambda: role_of(again) == "follower")
        fleet.in_sync(0, 1)
        wait_for(again, fleet.http(1))
        for http in (fleet.http(0), fleet.http(1)):
            assert sorted(each["body"] for each in pull_all(http, "t")) == ["0", "1", "2"]
