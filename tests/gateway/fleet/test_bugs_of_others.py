"""What went wrong in RocketMQ as a slave took its master's place, by the numbers of its issues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from lakemq.testing import start_gateway
from tests.gateway.fleet.electing import PATIENT, STILL_S, replicas
from tests.gateway.fleet.following import SMALL, broker_of, start_follower, wait_for
from tests.gateway.http_client import connect, produce, pull, pull_all, put_topic
from tests.gateway.routing.asking import begin, resolve, wait_until
from tests.standstill import begins_again_after

QUICK = {"gateway__wait_ms_max": 500}


def commit(http: httpx.Client, offset: int) -> None:
    """Have the group g commit that offset of the topic t's queue."""
    body = {"offsets": [{"topic": "t", "queue_id": 0, "offset": offset}]}
    http.put("/v1/groups/g/offsets", json=body).raise_for_status()


def committed(http: httpx.Client) -> int:
    """Where the group g goes on."""
    (found,) = http.get("/v1/groups/g/offsets", params={"topic": "t"}).json()["offsets"]
    return found["offset"]


def test_a_group_that_committed_what_was_cut_goes_on_before_it_when_that_replica_leads_again(tmp_path: Path) -> None:
    """4771: the log is truncated, the offsets aren't, and the group passes over what is stored there next."""
    with start_gateway(tmp_path / "0", **SMALL) as old, connect(old) as leads:
        put_topic(leads, "t")
        with start_follower(tmp_path / "1", old.url, **QUICK) as follower, connect(follower) as follows:
            produce(leads, "t", "both")
            commit(leads, 1)
            wait_for(follows, leads)
        for number in range(3):
            produce(leads, "t", f"cut {number}")
        commit(leads, 4)
        old.kill()
    with start_gateway(tmp_path / "1", **SMALL) as new, connect(new) as leads:
        assert committed(leads) == 1
        produce(leads, "t", "kept")
        with start_follower(tmp_path / "0", new.url, **QUICK) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            assert broker_of(follows)["follower_cut"]["messages"] == 3
            assert committed(follows) == 1
    with start_gateway(tmp_path / "0", **SMALL) as again, connect(again) as leads:
        assert committed(leads) == 1
        produce(leads, "t", "next")
        bodies: list[str] = []
        offset = committed(leads)
        while len(bodies) < 2:
            found = pull(leads, "t", 0, offset)
            assert found["next_offset"] > offset, found
            bodies += [each["body"] for each in found["messages"]]
            offset = found["next_offset"]
        assert bodies == ["kept", "next"]


def topics_of(http: httpx.Client) -> dict[str, Any]:
    """All that there are, the system's too, with how they are configured."""
    found = http.get("/v1/topics", params={"system": True}).json()["topics"]
    names = ("permission", "message_type", "ttl_ms", "message_bytes_max")
    return {each["topic"]: (len(each["queues"]), *(each[name] for name in names)) for each in found}


@begins_again_after(STILL_S)
def test_topics_and_open_transactions_are_there_after_the_leader_has_died(tmp_path: Path) -> None:
    """9804: a topic that was made for transactions is at the master alone, and gone after a switch."""
    with replicas(tmp_path, **PATIENT) as fleet:
        leader = fleet.http(0)
        made = {"queues": 3, "message_type": "transaction", "ttl_ms": 3_600_000, "message_bytes_max": 4_096}
        leader.put("/v1/topics/trades", json=made).raise_for_status()
        produce(leader, "made-by-a-send", "x")
        commits, rolls_back = begin(leader, "trades", "commits", "rolls back")
        topics = topics_of(leader)
        fleet.kill(0)
        assert fleet.leader() == 1
        leader = fleet.http(1)
        assert topics_of(leader) == topics
        assert topics["trades"][:3] == (3, "rw", "transaction")
        resolve(leader, commits, "commit").raise_for_status()
        resolve(leader, rolls_back, "rollback").raise_for_status()
        wait_until(lambda: [each["body"] for each in pull_all(leader, "trades")] == ["commits"])
