"""Jobs that are given a follower's address: they read there until their first write, which takes them to the leader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from lakemq.jobs.log_client import LogClient, Subscription
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.fleet.following import SMALL, broker_of, start_follower, stopped, wait_for
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import wait_until

TEXTS = [f"message {number}" for number in range(50)]
WAITS = {"replication__ack": "sync", "replication__silent_ms": 90_000, "replication__confirm_ms_max": 200_000}


class Fleet(NamedTuple):
    """Both replicas, in sync, with the texts in topic `orders`, and how to ask each."""

    leader: GatewayProcess
    follower: GatewayProcess
    leads: httpx.Client
    follows: httpx.Client


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with (
        start_gateway(tmp_path / "leader", **SMALL, **WAITS) as leader,
        start_follower(tmp_path / "follower", leader.url) as follower,
        connect(leader) as leads,
        connect(follower) as follows,
    ):
        wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
        put_topic(leads, "orders")
        produce(leads, "orders", *TEXTS)
        end = wait_for(follows, leads)
        wait_until(lambda: broker_of(follows)["confirmed_position"] >= end)
        yield Fleet(leader, follower, leads, follows)


def texts(client: LogClient, subscription: Subscription) -> list[str]:
    """What a task of the jobs reads of the log, where the driver has found its end."""
    end = client.end(subscription)
    options = SourceOptions((client.address,), subscription=subscription)
    part = LogPartition("broker-a", client.address, end.begin_position, end.end_position, end.clock_ms, {}, {})
    found = [row for batch in read_partition(part, options, ["topic", "body"]) for row in batch.to_pylist()]
    return [row["body"].decode() for row in found if row["topic"] == "orders"]


ORDERS, ALL = Subscription(("orders",)), Subscription()


def test_they_read_there_until_they_write_and_then_at_the_leader(fleet: Fleet) -> None:
    with closing(LogClient(fleet.follower.url, retry_s=60)) as client:
        with stopped(fleet.leader):
            assert texts(client, ORDERS) == TEXTS
            assert texts(client, ALL) == TEXTS, "as frames"
            assert "orders" in client.topics()
            assert client.queue_ends("orders") == {0: (0, len(TEXTS))}
        assert client.address == fleet.follower.url, "reading takes them nowhere"
        assert broker_of(fleet.leads)["jobs"] == {}
        client.put_jobs([{"name": "compaction"}])
        assert client.address == fleet.leader.url
        assert list(broker_of(fleet.leads)["jobs"]) == ["compaction"]
        fleet.follower.kill()
        assert texts(client, ORDERS) == texts(client, ALL) == TEXTS


def test_the_end_that_they_find_there_is_what_is_confirmed(fleet: Fleet) -> None:
    with closing(LogClient(fleet.follower.url, retry_s=60)) as client:
        end = client.end().end_position
        assert end == broker_of(fleet.leads)["confirmed_position"] == broker_of(fleet.follows)["confirmed_position"]
        produce(fleet.leads, "orders", "one more")
        wait_until(lambda: client.end(ORDERS, from_position=end).end_position > end)
        assert texts(client, ORDERS) == [*TEXTS, "one more"]
        assert client.address == fleet.follower.url
