"""Who is taken for a replica: what one says of its disk is the word by which messages are confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import Popen

import httpx

from lakemq.testing import start_gateway
from lakemq.testing.server_process import spawn
from tests.gateway.access.asking import allow, ask_as, give, make_user, token_of
from tests.gateway.fleet.following import SMALL, broker_of, degraded, start_follower
from tests.gateway.http_client import connect, is_problem, produce
from tests.gateway.routing.asking import wait_until

SYNC = {**SMALL, "replication__ack": "sync", "replication__silent_ms": 90_000, "replication__confirm_ms_max": 100_000}
"""A primary that waits for followers for longer than any of these tests takes."""
REFUSED = "user replicas may not: it takes Pub on Cluster:*"


def posing(leads: httpx.Client, user: httpx.Client, replica: int) -> httpx.Response:
    """The user says that it is that replica, and has all there is on its disk."""
    said = broker_of(leads)
    end = said["max_position"]
    query = {"from": end, "replica": replica, "incarnation": "posing", "durable": end, "epoch": said["epoch"]}
    return user.get("/v1/log/frames", params=query)


def with_token(token: str) -> Callable[[Sequence[str], Mapping[str, str]], Popen[str]]:
    """Starts processes that have that token."""
    return lambda command, environment: spawn(command, {**environment, "LAKEMQ_TOKEN": token})


def test_who_reads_the_log_is_no_replica_by_saying_so(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **SYNC) as primary, connect(primary) as leads:
        admin = ask_as(primary, token_of(tmp_path / "primary"))
        produce(leads, "t", "0")
        with admin, ask_as(primary, make_user(admin, "reader", allow("Cluster:*", "Get"))) as reader:
            refused = posing(leads, reader, 7)
            assert is_problem(refused, 403, "forbidden")
            assert refused.json()["detail"].startswith("user reader may not: it takes Pub on Cluster:*")
            assert broker_of(leads)["in_sync"] == [0]
            assert reader.get("/v1/log/frames", params={"from": 0}).status_code == 200, "it may read all the same"
            produce(leads, "t", "1")  # nobody is waited for
            give(admin, "reader", [allow("Cluster:*", "Get", "Pub")])
            assert posing(leads, reader, 7).status_code == 200
            wait_until(lambda: broker_of(leads)["in_sync"] == [0, 7])


def test_a_replicas_user_needs_the_right_and_who_was_one_before_it_was_asked_for_stays_one(tmp_path: Path) -> None:
    directory = tmp_path / "follower"
    with start_gateway(tmp_path / "primary", **SYNC) as primary, connect(primary) as leads:
        produce(leads, "t", "0")
        with ask_as(primary, token_of(tmp_path / "primary")) as admin:
            spawned = {"spawn": with_token(make_user(admin, "replicas", allow("Cluster:*", "Get")))}
            with start_follower(directory, primary.url, **spawned) as follower, connect(follower) as follows:
                wait_until(lambda: REFUSED in degraded(follows))
                assert broker_of(leads)["in_sync"] == [0]
                give(admin, "replicas", [allow("Cluster:*", "Get", "Pub")])
                wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
                # As a user from before the right was asked for: the record has its replica.
                give(admin, "replicas", [allow("Cluster:*", "Get")])
                assert is_on_both_disks(leads, follows)
                follower.stop()
            with start_follower(directory, primary.url, **spawned) as again, connect(again) as follows:
                wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
                assert is_on_both_disks(leads, follows), "it has stopped cleanly: it is who it was"
                assert degraded(follows) == ""


def is_on_both_disks(leads: httpx.Client, follows: httpx.Client) -> bool:
    """Whether a message that is answered is on the follower's disk too."""
    (placed,) = produce(leads, "t", "more")
    return broker_of(follows)["flushed_position"] > placed["position"] and broker_of(leads)["in_sync"] == [0, 1]
