"""Locks of queues, and what a restart leaves of groups."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.groups.asking import commit, heartbeat, lock, members, reset, view
from tests.gateway.http_client import connect, is_problem, produce, put_topic
from tests.gateway.routing.asking import wait_until

EXPIRY_MS = 300


def test_a_queue_is_locked_by_one_until_it_is_released(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 3)
    assert lock(http, group, "c1", topic, 0, 1) == [0, 1]
    assert lock(http, group, "c2", topic, 0, 1, 2) == [2]
    assert lock(http, group, "c1", topic, 0, 1, 2) == [0, 1]
    assert lock(http, f"{group}-2", "c2", topic, 0) == [0], "another group's locks are others"
    assert lock(http, group, "c2", topic, 0, 2, release=True) == [2]
    assert lock(http, group, "c1", topic, 2) == [2]
    assert [each["client_id"] for each in view(http, group)["locks"]] == ["c1"] * 3
    assert lock(http, group, "c1", topic, 0, 0, release=True) == [0]
    assert lock(http, group, "c2", topic, 0, 0) == [0]
    assert lock(http, f"{group}-3", "c1", topic, 0, release=True) == []
    assert http.get(f"/v1/groups/{group}-3").status_code == 404


def test_renewing_writes_nothing(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        put_topic(http, "t")
        lock(http, "g", "c", "t", 0)
        before = http.get("/v1/broker").json()["max_position"]
        assert lock(http, "g", "c", "t", 0) == [0]
        assert http.get("/v1/broker").json()["max_position"] == before


def test_a_lock_that_is_not_renewed_runs_out(tmp_path: Path) -> None:
    with start_gateway(tmp_path, groups__lock_expiry_ms=EXPIRY_MS) as gateway, connect(gateway) as http:
        put_topic(http, "t", 2)
        assert lock(http, "g", "c1", "t", 0, 1) == [0, 1]

        def one_of_two_ran_out() -> bool:
            """Whether the other client has the queue that isn't renewed; the one that is it never has."""
            begin = time.monotonic()
            assert lock(http, "g", "c1", "t", 0) == [0]
            other = lock(http, "g", "c2", "t", 0, 1)
            if time.monotonic() - begin < EXPIRY_MS / 1000:
                assert 0 not in other
            else:  # this process stood still for so long that both have run out
                lock(http, "g", "c2", "t", 0, 1, release=True)
                return False
            return other == [1]

        wait_until(one_of_two_ran_out)
        wait_until(lambda: view(http, "g")["locks"] == [])


def test_who_leaves_and_what_is_deleted_holds_no_lock(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 1)
    heartbeat(http, group, "c1", topic)
    lock(http, group, "c1", topic, 0)
    http.delete(f"/v1/groups/{group}/members/c1")
    assert lock(http, group, "c2", topic, 0) == [0]
    http.delete(f"/v1/topics/{topic}")
    put_topic(http, topic, 1)
    assert lock(http, group, "c1", topic, 0) == [0]


def test_of_many_who_want_a_queue_at_once_one_has_it(gateway: GatewayProcess, topic: str) -> None:
    clients, queues = 16, range(8)
    with connect(gateway) as http, ThreadPoolExecutor(clients) as pool:
        put_topic(http, topic, len(queues))
        granted = list(pool.map(lambda number: lock(http, "g", f"c{number}", topic, *queues), range(clients)))
        assert sorted(queue_id for each in granted for queue_id in each) == list(queues)


def test_a_lock_of_what_is_not_there_is_a_404(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 1)
    for name, queue_id, code in ((topic, 1, "queue_not_found"), (f"{topic}-x", 0, "topic_not_found")):
        body = {"client_id": "c", "queues": [{"topic": topic, "queue_id": 0}, {"topic": name, "queue_id": queue_id}]}
        assert is_problem(http.post(f"/v1/groups/g-{topic}/locks", json=body), 404, code)
    assert http.get(f"/v1/groups/g-{topic}").status_code == 404


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    "body",
    [{}, [], {"client_id": "c"}, {"queues": []}, {"client_id": "", "queues": []}, {"client_id": 1, "queues": []},
     {"client_id": "c" * 257, "queues": []}, {"client_id": "c", "queues": [1]}, {"client_id": "c", "queues": [{}]},
     {"client_id": "c", "queues": [{"topic": "t", "queue_id": -1}]}, {"client_id": "c", "queues": [], "x": 1}],
)  # fmt: skip
def test_a_malformed_lock_is_a_400(http: httpx.Client, topic: str, method: str, body: Any) -> None:
    assert is_problem(http.request(method, f"/v1/groups/{topic}/locks", json=body), 400, "invalid_request")


def test_locks_are_bounded(tmp_path: Path) -> None:
    with start_gateway(tmp_path, groups__locks_max=2) as gateway, connect(gateway) as http:
        put_topic(http, "t", 3)
        body = {"client_id": "c", "queues": [{"topic": "t", "queue_id": number} for number in range(3)]}
        assert is_problem(http.post("/v1/groups/g/locks", json=body), 429, "flow_control")
        assert lock(http, "g", "c", "t", 0, 1) == [0, 1]


@pytest.mark.parametrize(("how", "segment_bytes"), [("kill", 2**20), ("stop", 2**30)])
def test_a_restart_changes_nothing_of_a_group(tmp_path: Path, how: str, segment_bytes: int) -> None:
    """Nobody rebalances, and no lock gets a second owner; also from a segment's first frame, which holds it all."""
    options = {"storage__segment_bytes": segment_bytes, "storage__retention_ms": 0}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t", 4)
        for number in range(5):
            heartbeat(http, "g", f"c{number}", "t", consume_from="timestamp", consume_timestamp_ms=number)
        http.delete("/v1/groups/g/members/c4")
        lock(http, "g", "c0", "t", 0, 1)
        lock(http, "g", "c1", "t", 2)
        lock(http, "g", "c0", "t", 1, release=True)
        produce(http, "t", *({"body": "x", "queue_id": number % 4} for number in range(40)))
        commit(http, "g", "t", {0: 5, 3: 7})
        reset(http, "g", "t", "latest")
        commit(http, "g", "t", {2: 9})
        for _ in range(3):
            http.post("/v1/topics/big/messages", content=b"x" * 700_000)
        before = timeless(view(http, "g")), members(http, "g")
        gateway.kill() if how == "kill" else gateway.stop()
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        assert (timeless(view(http, "g")), members(http, "g")) == before
        assert lock(http, "g", "c1", "t", 0, 1, 2) == [1, 2]
        assert lock(http, "g", "c0", "t", 0, 1, 2) == [0]
        assert heartbeat(http, "g", "c9", "t")["generation"] == before[1]["generation"] + 1


def timeless(shown: dict[str, Any]) -> dict[str, Any]:
    """A view without what goes on with time."""
    for client in shown["clients"]:
        del client["heartbeat_age_ms"]
    return shown
