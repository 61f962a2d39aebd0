"""Offsets of groups: commits, conditions, resets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.groups.asking import commit, heartbeat, offsets, reset
from tests.gateway.http_client import WAIT_S, connect, is_problem, produce, put_topic

OFFSETS = 2_000


def make_topic(http: httpx.Client, topic: str, queues: int, messages: int = 10) -> None:
    """A topic with so many messages in each queue."""
    put_topic(http, topic, queues)
    produce(http, topic, *({"body": "x", "queue_id": number % queues} for number in range(queues * messages)))


def test_a_commit_moves_its_queue_and_no_other(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    make_topic(http, topic, 3)
    assert commit(http, group, topic, {0: 5, 2: 10}) == {0: 5, 2: 10}
    assert commit(http, group, topic, {1: 7}) == {1: 7}
    assert offsets(http, group, topic) == {0: 5, 1: 7, 2: 10}
    assert commit(http, group, topic, {0: 3}) == {0: 3}, "a commit may move back"
    assert offsets(http, f"{group}-2", topic) == {}
    make_topic(http, f"{topic}-2", 1)
    commit(http, group, f"{topic}-2", {0: 1})
    assert offsets(http, group, topic) == {0: 3, 1: 7, 2: 10}
    everything = http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [(each["topic"], each["queue_id"]) for each in everything] == [
        *[(topic, n) for n in range(3)],
        (f"{topic}-2", 0),
    ]


def test_since_when_a_group_has_consumed_a_topic_is_answered(http: httpx.Client, topic: str) -> None:
    group, path = f"g-{topic}", f"/v1/groups/g-{topic}/offsets"
    make_topic(http, topic, 2)
    assert http.get(path, params={"topic": topic}).json() == {"offsets": []}
    commit(http, group, topic, {0: 1})
    began = http.get(path, params={"topic": topic}).json()["since_ms"]
    after = produce(http, topic, {"body": "x"})[0]["store_time_ms"]
    commit(http, group, topic, {1: 2})
    assert http.get(path, params={"topic": topic}).json()["since_ms"] == began <= after
    assert "since_ms" not in http.get(path).json()


def test_of_two_who_begin_with_a_queue_one_says_where(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    make_topic(http, topic, 2)
    assert commit(http, group, topic, {0: 5}, if_absent=True) == {0: 5}
    assert commit(http, group, topic, {0: 9, 1: 9}, if_absent=True) == {0: 5, 1: 9}
    assert offsets(http, group, topic) == {0: 5, 1: 9}


def test_a_reset_moves_all_queues_of_the_topic(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 2)
    make_topic(http, f"{topic}-2", 1)
    early = produce(http, topic, *({"body": "x", "queue_id": 0} for _ in range(3)))
    commit(http, group, topic, {0: 1})
    commit(http, group, f"{topic}-2", {0: 1})
    assert reset(http, group, topic, "latest") == {0: 3, 1: 0}
    assert reset(http, group, topic, "timestamp", timestamp_ms=early[0]["store_time_ms"]) == {0: 0, 1: 0}
    assert reset(http, group, topic, "timestamp", timestamp_ms=2**50) == {0: 3, 1: 0}
    assert offsets(http, group, topic) == {0: 3, 1: 0}
    assert reset(http, group, topic, "earliest") == {0: 0, 1: 0}
    assert offsets(http, group, f"{topic}-2") == {0: 1}


def test_a_consumer_that_does_not_know_of_a_reset_does_not_undo_it(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    make_topic(http, topic, 1)
    known = heartbeat(http, group, "c", topic)["resets"]
    assert commit(http, group, topic, {0: 9}, resets=known) == {0: 9}
    reset(http, group, topic, "earliest")
    assert commit(http, group, topic, {0: 10}, resets=known) == {0: 0}
    told = heartbeat(http, group, "c", topic)["resets"]
    assert told == known + 1
    assert commit(http, group, topic, {0: 1}, resets=told) == {0: 1}


def test_a_topic_that_is_deleted_takes_its_offsets_with_it(http: httpx.Client, topic: str) -> None:
    make_topic(http, topic, 1)
    commit(http, f"g-{topic}", topic, {0: 9})
    http.delete(f"/v1/topics/{topic}")
    put_topic(http, topic, 1)
    assert offsets(http, f"g-{topic}", topic) == {}
    # Its offsets go on where the old ones ended: who still commits those commits nothing that is ahead.
    assert commit(http, f"g-{topic}", topic, {0: 10}) == {0: 10}


def test_an_offset_beyond_the_end_is_refused(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    make_topic(http, topic, 2)
    good = {"topic": topic, "queue_id": 0, "offset": 10}
    for offset in (11, 2**63 - 1):
        response = http.put(f"/v1/groups/{group}/offsets", json={"offsets": [good, {**good, "offset": offset}]})
        assert is_problem(response, 400, "offset_beyond_end")
    assert offsets(http, group, topic) == {}
    assert commit(http, group, topic, {0: 10, 1: 0}) == {0: 10, 1: 0}


def test_a_commit_to_what_is_not_there_stores_nothing(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    make_topic(http, topic, 1)
    good = {"topic": topic, "queue_id": 0, "offset": 1}
    for bad, code in (({"queue_id": 1}, "queue_not_found"), ({"topic": f"{topic}-x"}, "topic_not_found")):
        response = http.put(f"/v1/groups/{group}/offsets", json={"offsets": [good, good | bad]})
        assert is_problem(response, 404, code)
    assert offsets(http, group, topic) == {}
    assert http.put(f"/v1/groups/{group}/offsets", json={"offsets": []}).json() == {"offsets": []}
    assert http.get(f"/v1/groups/{group}").status_code == 404
    response = http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": f"{topic}-x", "to": "latest"})
    assert is_problem(response, 404, "topic_not_found")
    assert is_problem(http.get(f"/v1/groups/{group}/offsets?topic=a b"), 400, "invalid_topic")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"offsets": {}},
        {"offsets": [{}]},
        {"offsets": [{"topic": "t", "queue_id": 0}]},
        {"offsets": [{"topic": "t", "queue_id": 0, "offset": -1}]},
        {"offsets": [{"topic": "t", "queue_id": 0, "offset": 2**63}]},
        {"offsets": [{"topic": "t", "queue_id": 0, "offset": 1.5}]},
        {"offsets": [{"topic": "t", "queue_id": "0", "offset": 1}]},
        {"offsets": [{"topic": "t", "queue_id": -1, "offset": 1}]},
        {"offsets": [{"topic": "t", "queue_id": 2**70, "offset": 1}]},
        {"offsets": [{"topic": None, "queue_id": 0, "offset": 1}]},
        {"offsets": [], "other": 1},
        {"offsets": [], "if_absent": 1},
        {"offsets": [], "resets": -1},
        {"offsets": [{"topic": "t", "queue_id": 0, "offset": 0}] * 10_001},
    ],
)
def test_a_malformed_commit_is_a_400(http: httpx.Client, topic: str, body: Any) -> None:
    assert is_problem(http.put(f"/v1/groups/{topic}/offsets", json=body), 400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [{}, {"topic": "t"}, {"to": "latest"}, {"topic": "t", "to": "now"}, {"topic": "t", "to": "timestamp"},
     {"topic": "t", "to": "timestamp", "timestamp_ms": -1}, {"topic": 1, "to": "latest"}],
)  # fmt: skip
def test_a_malformed_reset_is_a_400(http: httpx.Client, topic: str, body: Any) -> None:
    assert is_problem(http.post(f"/v1/groups/{topic}/offsets/reset", json=body), 400, "invalid_request")


def test_offsets_are_bounded(tmp_path: Path) -> None:
    with start_gateway(tmp_path, groups__offsets_max=2) as gateway, connect(gateway) as http:
        make_topic(http, "t", 3)
        commit(http, "g", "t", {0: 1})
        content = {"offsets": [{"topic": "t", "queue_id": queue_id, "offset": 5} for queue_id in range(3)]}
        assert is_problem(http.put("/v1/groups/g/offsets", json=content), 429, "flow_control")
        response = http.post("/v1/groups/g/offsets/reset", json={"topic": "t", "to": "latest"})
        assert is_problem(response, 429, "flow_control")
        assert offsets(http, "g", "t") == {0: 1}
        assert commit(http, "g", "t", {0: 2, 1: 2}) == {0: 2, 1: 2}


def test_an_answered_commit_survives_kill_9(tmp_path: Path) -> None:
    """Many who commit at once, and a kill in their midst: each offset is the last that was answered, or the
    one that was on its way."""
    groups, queues = 4, 4
    answered: dict[tuple[str, int], int] = {}
    asked: dict[tuple[str, int], int] = {}

    async def commit_on(url: str, group: str, queue_id: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=WAIT_S, trust_env=False) as http:
            for offset in range(1, OFFSETS):
                asked[group, queue_id] = offset
                content = {"offsets": [{"topic": "t", "queue_id": queue_id, "offset": offset}]}
                try:
                    response = await http.put(f"/v1/groups/{group}/offsets", json=content)
                except httpx.TransportError:
                    return
                assert response.status_code == 200
                answered[group, queue_id] = offset

    async def commit_and_kill() -> None:
        keys = [(f"g{number}", queue_id) for number in range(groups) for queue_id in range(queues)]
        tasks = [asyncio.create_task(commit_on(gateway.url, *key)) for key in keys]
        while len(answered) < len(keys) or min(answered.values()) < 5:  # noqa: ASYNC110  all tasks answer that
            await asyncio.sleep(0.01)
        await asyncio.to_thread(gateway.kill)
        await asyncio.gather(*tasks)

    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        make_topic(http, "t", queues, OFFSETS)
        asyncio.run(commit_and_kill())
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        for (group, queue_id), offset in answered.items():
            assert offset <= offsets(http, group, "t")[queue_id] <= asked[group, queue_id]
