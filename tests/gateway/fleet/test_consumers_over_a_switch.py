"""Consumers over a switch: each goes on at the offset where it was, in every queue. Nothing is skipped, nothing is
handed out twice while it is held, and nobody is told of a gap or of an offset out of range."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.gateway.fleet.electing import LASTING, PATIENT, STILL_S, Replicas, replicas, role_of
from tests.gateway.fleet.following import broker_of
from tests.gateway.http_client import produce, pull, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

QUEUES, EACH, DONE = 4, 6, 2
HOUR_MS = 3_600_000


def fill(http: httpx.Client, begin: int, end: int) -> None:
    for queue_id in range(QUEUES):
        produce(http, "t", *({"body": f"{queue_id} {each}", "queue_id": queue_id} for each in range(begin, end)))


def offsets_of(http: httpx.Client) -> list[int]:
    answer = http.get("/v1/groups/g/offsets", params={"topic": "t"})
    assert answer.status_code == 200, answer.text
    return [each["offset"] for each in sorted(answer.json()["offsets"], key=lambda each: each["queue_id"])]


def switch(fleet: Replicas, how: str) -> httpx.Client:
    """Have replica 1 lead, and replica 0 follow; returns the leader."""
    if how == "killed":
        fleet.kill(0)
    else:
        assert fleet.http(0).post("/v1/broker/switch", json={"replica": 1}).json()["leader"] == 1
    wait_until(lambda: role_of(fleet.http(1)) == "primary")
    if how == "killed":
        fleet.start(0)
    fleet.in_sync(0, 1)
    return fleet.http(1)


@pytest.mark.parametrize("how", ["killed", "handed over"])
@begins_again_after(STILL_S)
def test_consumers_go_on_where_they_were_in_every_queue(tmp_path: Path, how: str) -> None:
    with replicas(tmp_path, **(PATIENT if how == "killed" else LASTING)) as fleet:
        leader = fleet.http(0)
        put_topic(leader, "t", queues=QUEUES)
        fill(leader, 0, EACH)
        done = [{"topic": "t", "queue_id": queue_id, "offset": DONE} for queue_id in range(QUEUES)]
        leader.put("/v1/groups/g/offsets", json={"offsets": done}).raise_for_status()
        held = receive(leader, "r", "t", max=5, invisible_ms=HOUR_MS)
        before = broker_of(leader)["max_position"]

        leader = switch(fleet, how)
        assert broker_of(leader)["max_position"] < before + 100
        assert offsets_of(leader) == [DONE] * QUEUES
        for queue_id in range(QUEUES):
            nothing = pull(leader, "t", queue_id, EACH)
            assert (nothing["status"], nothing["next_offset"]) == ("no_new_message", EACH)
        fill(leader, EACH, EACH + 2)
        for queue_id in range(QUEUES):
            found = pull(leader, "t", queue_id, DONE, max=100)
            assert [each["queue_offset"] for each in found["messages"]] == list(range(DONE, EACH + 2))
            assert [each["body"] for each in found["messages"]] == [f"{queue_id} {n}" for n in range(DONE, EACH + 2)]
            assert (found.get("holes", []), found["next_offset"]) == ([], EACH + 2)
        assert set(ack(leader, "r", *held)) == {"ok"}
        rest: list[dict[str, object]] = []
        while more := receive(leader, "r", "t", max=32, invisible_ms=HOUR_MS):
            rest += more
        bodies = [str(each["body"]) for each in (*held, *rest)]
        assert sorted(bodies) == sorted(f"{queue_id} {n}" for queue_id in range(QUEUES) for n in range(EACH + 2))
        described = leader.get("/v1/groups/r").json()
        assert not described.get("gaps"), described
