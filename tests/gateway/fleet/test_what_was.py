"""A replica that leads and follows by turns keeps nothing of what it was: it would be a whole state each time."""

from __future__ import annotations

import gc
from pathlib import Path

import httpx

from lakemq.gateway.process.broker import Broker
from lakemq.storage.disk.files import Files
from tests.gateway.fleet.electing import described, role_of
from tests.gateway.fleet.embedding import STILL_S, replica
from tests.gateway.http_client import pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after


def brokers(root: Path) -> int:
    """So many there are of those folders."""
    gc.unfreeze()
    gc.collect()
    found = (each for each in gc.get_objects() if type(each) is Broker)  # what a proxy is for may be gone
    return sum(root in each.settings.storage.data_dir.parents for each in found)


def lead(leader: httpx.Client, other: httpx.Client, number: int) -> None:
    """The other one takes the lead, and all that is read by FastAPI is asked of both."""
    wait_until(lambda: described(leader).get("in_sync") == [0, 1])
    assert leader.post("/v1/broker/switch", json={"replica": number}).is_success
    wait_until(lambda: (role_of(leader), role_of(other)) == ("follower", "primary"))
    wait_until(lambda: described(other).get("in_sync") == [0, 1])
    for each in (leader, other):
        assert each.get("/v1/topics").is_success
        assert pull_all(each, "t") == []


@begins_again_after(STILL_S)
def test_a_replica_keeps_no_broker_that_it_was(tmp_path: Path) -> None:
    with replica(tmp_path, 0, Files()) as first:
        put_topic(first, "t")
        with replica(tmp_path, 1, Files()) as second:
            lead(first, second, 1)
            lead(second, first, 0)
            wait_until(lambda: brokers(tmp_path) == 2)
