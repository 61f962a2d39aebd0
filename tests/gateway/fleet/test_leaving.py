"""A follower that stops says so: its primary waits for it no longer than it takes to write that down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.fleet.following import broker_of, start_follower
from tests.gateway.fleet.test_in_sync import PATIENT, in_sync, recorded
from tests.gateway.http_client import connect, is_problem, produce
from tests.gateway.routing.asking import wait_until


@pytest.mark.parametrize("least", [1, 2])
def test_who_stops_is_let_go_at_once_and_is_back_with_its_next_start(tmp_path: Path, least: int) -> None:
    options = {**PATIENT, "replication__min_in_sync": least}
    with start_gateway(tmp_path / "primary", **options) as primary, connect(primary) as leads:
        with start_follower(tmp_path / "follower", primary.url):
            wait_until(lambda: in_sync(leads) == [0, 1])
            produce(leads, "t", "both")
        if least == 1:  # nobody is waited for
            produce(leads, "t", "one")
        else:
            wait_until(lambda: in_sync(leads) == [0])
            body = {"messages": [{"body": "none"}]}
            assert is_problem(leads.post("/v1/topics/t/messages", json=body), 503, "not_enough_replicas")
        assert recorded(tmp_path / "primary") == [0]
        with start_follower(tmp_path / "follower", primary.url) as again, connect(again) as follows:
            wait_until(lambda: in_sync(leads) == [0, 1])
            (placed,) = produce(leads, "t", "both again")
            assert broker_of(follows)["flushed_position"] > placed["position"]


def test_only_who_is_a_member_says_that_it_stops_and_in_the_epoch_that_it_is_one_of(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **PATIENT) as primary, connect(primary) as leads:
        produce(leads, "t", "0")
        end, epoch = broker_of(leads)["max_position"], broker_of(leads)["epoch"]
        said = {"from": end, "replica": 1, "incarnation": "one", "durable": end, "epoch": epoch}

        def ask(**others: Any) -> httpx.Response:
            answer = leads.get("/v1/log/frames", params=said | others)
            assert (answer.status_code, answer.content) == (200, b"")
            return answer

        def version() -> int:
            ask()  # so that whatever was said before is done
            return broker_of(leads)["replication"]["record_version"]

        def is_member() -> bool:
            ask()
            return in_sync(leads) == [0, 1]

        wait_until(is_member)
        before = version()
        ask(incarnation="another", leaves="yes")
        ask(epoch=epoch - 1, leaves="yes")
        ask(leaves="no")
        for _ in range(3):
            assert (version(), in_sync(leads)) == (before, [0, 1])
        ask(leaves="yes")
        wait_until(lambda: in_sync(leads) == [0])


def test_a_primary_that_is_gone_holds_nobody_up_who_stops(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "primary", **PATIENT) as primary,
        connect(primary) as leads,
        start_follower(tmp_path / "follower", primary.url) as follower,
    ):
        wait_until(lambda: in_sync(leads) == [0, 1])
        primary.kill()
        follower.stop()
    assert recorded(tmp_path / "primary") == [0, 1]
