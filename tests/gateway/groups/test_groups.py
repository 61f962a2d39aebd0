"""Members of groups: heartbeats, leaving, expiring, waiting, and how a group looks."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.groups.asking import commit, heartbeat, lock, members, offsets, view
from tests.gateway.http_client import WAIT_S, connect, is_problem, produce, put_topic
from tests.gateway.receive.asking import ack, bodies, receive
from tests.gateway.routing.asking import nack, wait_until

EXPIRY_MS = 300
CLIENTS = 1_000


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that waits for no member long; a lock goes with its member alone."""
    options = {"groups__member_expiry_ms": EXPIRY_MS, "groups__lock_expiry_ms": 3_600_000}
    with start_gateway(tmp_path_factory.mktemp("short"), **options) as gateway:
        yield gateway


def test_who_is_heard_of_is_a_member_until_it_leaves(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    first = heartbeat(http, group, "c2", topic)
    assert first["members"] == ["c2"]
    second = heartbeat(http, group, "c1", topic)
    assert second["members"] == ["c1", "c2"]
    assert second["generation"] > first["generation"]
    assert heartbeat(http, group, "c2", topic) == second
    assert members(http, group) == second
    response = http.delete(f"/v1/groups/{group}/members/c2")
    assert (response.status_code, response.json()["members"]) == (200, ["c1"])
    assert response.json()["generation"] > second["generation"]
    assert http.delete(f"/v1/groups/{group}/members/c2").json() == response.json()


def test_a_heartbeat_that_changes_nothing_writes_nothing(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        heartbeat(http, "g", "c", "t")
        before = http.get("/v1/broker").json()["max_position"]
        heartbeat(http, "g", "c", "t")
        assert http.get("/v1/broker").json()["max_position"] == before


@pytest.mark.parametrize("query", [{}, {"generation": 0}, {"generation": 0, "wait_ms": 9_000}])
def test_members_are_told_at_once_to_who_does_not_know_them(
    http: httpx.Client, topic: str, query: dict[str, int]
) -> None:
    known = heartbeat(http, f"g-{topic}", "c", topic)
    assert members(http, f"g-{topic}", **query) == known


def waiting(gateway: GatewayProcess, group: str, generation: int) -> tuple[threading.Thread, list[Any]]:
    """Somebody who waits for the group to move, and the answer once there is one."""
    answers: list[Any] = []

    def wait() -> None:
        with connect(gateway) as http:
            answers.append(members(http, group, generation=generation, wait_ms=50_000))

    thread = threading.Thread(target=wait)
    thread.start()
    with connect(gateway) as http:
        wait_until(lambda: "lakemq_waiting_requests 1." in http.get("/metrics").text)
    return thread, answers


@pytest.mark.parametrize("change", ["join", "leave", "subscribe", "grow", "make", "delete", "reset", "retry"])
def test_whatever_moves_the_generation_wakes_who_waits(
    gateway: GatewayProcess, http: httpx.Client, topic: str, change: str
) -> None:
    group, other = f"g-{topic}", f"{topic}-other"
    put_topic(http, topic, 1)
    (sent,) = produce(http, topic, "x")
    heartbeat(http, group, "c1", topic, other)
    before = heartbeat(http, group, "c2", topic, other)
    thread, answers = waiting(gateway, group, before["generation"])
    {
        "join": lambda: heartbeat(http, group, "c3", topic, other),
        "leave": lambda: http.delete(f"/v1/groups/{group}/members/c1"),
        "subscribe": lambda: heartbeat(http, group, "c1", topic),
        "grow": lambda: put_topic(http, topic, 2),
        "make": lambda: put_topic(http, other, 1),
        "delete": lambda: http.delete(f"/v1/topics/{topic}"),
        "reset": lambda: http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": topic, "to": "latest"}),
        "retry": lambda: nack(http, group, sent["message_id"]),
    }[change]()
    thread.join()
    assert answers[0]["generation"] > before["generation"]
    assert answers[0] == members(http, group)


@pytest.mark.parametrize("change", ["heartbeat", "permission", "commit", "produce"])
def test_what_changes_neither_members_nor_queues_does_not_move_the_generation(
    http: httpx.Client, topic: str, change: str
) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "x")
    before = heartbeat(http, f"g-{topic}", "c", topic)
    {
        "heartbeat": lambda: heartbeat(http, f"g-{topic}", "c", topic),
        "permission": lambda: put_topic(http, topic, 1, "r"),
        "commit": lambda: commit(http, f"g-{topic}", topic, {0: 1}),
        "produce": lambda: produce(http, topic, "x"),
    }[change]()
    assert members(http, f"g-{topic}") == before
    query = {"generation": before["generation"], "wait_ms": 20}
    assert members(http, f"g-{topic}", **query) == before


def test_a_member_that_is_heard_of_no_more_is_gone_and_so_are_its_locks(short: GatewayProcess) -> None:
    with connect(short) as http:
        put_topic(http, "expire", 1)
        alone = heartbeat(http, "g", "c1", "expire")
        assert alone["expiry_ms"] == EXPIRY_MS
        assert lock(http, "g", "c2", "expire", 0) == [0]
        heartbeat(http, "g", "c2", "expire")
        wait_until(lambda: heartbeat(http, "g", "c1", "expire")["members"] == ["c1"])
        wait_until(lambda: lock(http, "g", "c1", "expire", 0) == [0])
        wait_until(lambda: members(http, "g")["members"] == [])
        assert heartbeat(http, "g", "c2", "expire")["members"] == ["c2"]


def test_an_empty_group_makes_room_for_another_and_no_other_does(tmp_path: Path) -> None:
    with start_gateway(tmp_path, groups__groups_max=20) as gateway, connect(gateway) as http:
        heartbeat(http, "once", "c", "t")
        http.delete("/v1/groups/once/members/c")
        put_topic(http, "kept", 1)
        content = {"offsets": [{"topic": "kept", "queue_id": 0, "offset": 0}]}
        answers = [http.put(f"/v1/groups/kept-{number}/offsets", json=content) for number in range(21)]
        assert [answer.status_code for answer in answers[:10]] == [200] * 10
        assert is_problem(answers[-1], 429, "flow_control")
        assert "DELETE /v1/groups/{group}" in answers[-1].json()["detail"]
        assert http.get("/v1/groups/once").status_code == 404
        assert offsets(http, "kept-0", "kept") == {0: 0}
        assert http.delete("/v1/groups/kept-0").is_success
        assert http.put("/v1/groups/one-more/offsets", json=content).is_success


def test_members_are_bounded_and_so_is_what_they_say(tmp_path: Path) -> None:
    options = {"groups__members_max": 2, "groups__member_characters_max": 2_000}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:

        def subscribe(client_id: str, tags: str) -> httpx.Response:
            body = {"subscriptions": [{"topic": "t", "type": "tag", "expression": tags}]}
            return http.post(f"/v1/groups/g/members/{client_id}/heartbeat", json=body)

        assert subscribe("c1", "A").status_code == 200
        assert is_problem(subscribe("c1", "A" * 2_000), 429, "flow_control")
        assert subscribe("c2", "A" * 1_000).status_code == 200
        assert subscribe("c2", "B" * 1_000).status_code == 200
        assert is_problem(subscribe("c3", "A"), 429, "flow_control")
        http.delete("/v1/groups/g/members/c2")
        assert subscribe("c3", "A").status_code == 200
        assert subscribe("c1", "A").json()["members"] == ["c1", "c3"]


def test_members_that_subscribe_otherwise_are_told_so(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"

    def subscribe(client_id: str, expression: str, *others: str) -> Any:
        return heartbeat(http, group, client_id, {"topic": topic, "type": "tag", "expression": expression}, *others)

    assert not subscribe("c1", "A||B")["subscriptions_differ"]
    assert not subscribe("c2", " B || A ", f"%RETRY%{group}")["subscriptions_differ"]
    told = subscribe("c3", "C", f"{topic}-2")
    assert told["subscriptions_differ"]
    assert told["differences"] == [
        {
            "topic": topic,
            "subscriptions": [
                {"type": "tag", "expression": "A||B", "client_ids": ["c1", "c2"]},
                {"type": "tag", "expression": "C", "client_ids": ["c3"]},
            ],
            "without": [],
        },
        {
            "topic": f"{topic}-2",
            "subscriptions": [{"type": "tag", "expression": "*", "client_ids": ["c3"]}],
            "without": ["c1", "c2"],
        },
    ]
    assert view(http, group)["differences"] == told["differences"]
    assert not subscribe("c3", "A||B")["subscriptions_differ"]


def test_members_of_another_model_are_refused(http: httpx.Client, topic: str) -> None:
    """Regression: of a group with both the clustering members consumed for the others, in silence."""
    group = f"g-{topic}"
    path = f"/v1/groups/{group}/members/c2/heartbeat"
    body = {"model": "broadcasting", "subscriptions": [{"topic": topic}]}
    heartbeat(http, group, "c1", topic)
    refused = http.post(path, json=body)
    assert is_problem(refused, 409, "group_model_differs")
    assert "clustering" in refused.json()["detail"]
    assert "c1" in refused.json()["detail"]
    assert heartbeat(http, group, "c1", topic, model="broadcasting")["members"] == ["c1"]
    assert http.post(path, json=body).status_code == 200
    assert is_problem(http.post(path, json={"model": "clustering"}), 409, "group_model_differs")


def test_of_two_members_of_different_models_that_come_at_once_one_is_refused(gateway: GatewayProcess) -> None:
    async def both() -> list[int]:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=WAIT_S, trust_env=False) as http:
            bodies = [{"model": "clustering"}, {"model": "broadcasting"}] * 5
            posts = [
                http.post(f"/v1/groups/at-once/members/{number}/heartbeat", json=body)
                for number, body in enumerate(bodies)
            ]
            return [answer.status_code for answer in await asyncio.gather(*posts)]

    assert sorted(asyncio.run(both())) == [200] * 5 + [409] * 5


def test_the_lag_of_a_broadcasting_group_is_not_known(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 1)
    produce(http, topic, "x")
    heartbeat(http, group, "c1", topic, model="broadcasting", consume_from="first")
    for _ in range(2):
        shown = view(http, group)
        assert (shown["model"], shown["lag_total"]) == ("broadcasting", None)
        assert [each["lag"] for each in shown["lag"] if each["topic"] == topic] == [None] * len(shown["members"])
        (listed,) = [each for each in http.get("/v1/groups").json()["groups"] if each["group"] == group]
        assert (listed["model"], listed["lag_total"]) == ("broadcasting", None)
        http.delete(f"/v1/groups/{group}/members/c1")


def test_the_metric_counts_the_groups_that_are_listed(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        (sent,) = produce(http, "t", "x")
        nack(http, "nacks", {"message_id": sent["message_id"], "delay_level": -1})
        http.post("/v1/groups/receives/receive", json={"topic": "t", "wait_ms": 0})
        commit(http, "commits", "t", {0: 0})
        listed = {each["group"] for each in http.get("/v1/groups").json()["groups"]}
        assert listed == {"nacks", "receives", "commits"}
        (counted,) = re.findall(r"^lakemq_groups (\S+)$", http.get("/metrics").text, re.MULTILINE)
        assert float(counted) == len(listed)


def test_a_group_is_deleted_with_all_that_it_has(tmp_path: Path) -> None:
    """Regression: a nack by a misspelt group made one that nothing removed."""
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        put_topic(http, "t", 1)
        (sent, *_) = produce(http, "t", "a", "b", "c")
        nack(http, "g", {"message_id": sent["message_id"], "delay_level": -1})
        (held,) = receive(http, "g", "t", max=1)
        commit(http, "g", "t", {0: 2})
        heartbeat(http, "g", "c1", "t")
        lock(http, "g", "c1", "t", 0)
        commit(http, "other", "t", {0: 1})
        assert is_problem(http.delete("/v1/groups/g"), 409, "group_in_use")
        http.delete("/v1/groups/g/members/c1")
        assert http.delete("/v1/groups/g").json() == {"group": "g", "deleted": True}
        is_gone(http, held)
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        is_gone(http, held)
        # The name is free: who takes it begins anew.
        assert bodies(receive(http, "g", "t")) == ["a", "b", "c"]


def is_gone(http: httpx.Client, held: dict[str, Any]) -> None:
    """Nothing of group `g` is left."""
    assert is_problem(http.get("/v1/groups/g"), 404, "group_not_found")
    assert is_problem(http.delete("/v1/groups/g"), 404, "group_not_found")
    assert [each["group"] for each in http.get("/v1/groups").json()["groups"]] == ["other"]
    assert is_problem(http.get("/v1/topics/%25DLQ%25g"), 404, "topic_not_found")
    assert ack(http, "g", held) == ["receipt_expired"]
    assert offsets(http, "g", "t") == {}


def test_a_group_shows_members_subscriptions_and_lag_by_queue(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 2)
    produce(http, topic, *({"body": "x", "queue_id": number % 2} for number in range(10)))
    heartbeat(http, group, "c1", topic)
    assert [each["lag"] for each in view(http, group)["lag"]] == [0, 0]
    heartbeat(http, group, "c1", topic, consume_from="first")
    assert [each["lag"] for each in view(http, group)["lag"]] == [5, 5]
    heartbeat(http, group, "c1", topic, consume_from="timestamp", consume_timestamp_ms=0)
    assert [each["lag"] for each in view(http, group)["lag"]] == [5, 5]
    commit(http, group, topic, {1: 3})
    shown = view(http, group)
    assert shown["members"] == ["c1"]
    assert shown["subscriptions"] == [{"topic": topic, "type": "tag", "expression": "*"}]
    assert shown["lag"] == [
        {"topic": topic, "queue_id": 0, "offset": None, "min_offset": 0, "max_offset": 5, "lag": 5},
        {"topic": topic, "queue_id": 1, "offset": 3, "min_offset": 0, "max_offset": 5, "lag": 2},
    ]
    assert shown["lag_total"] == 7
    (client,) = shown["clients"]
    assert (client["client_id"], client["model"], client["consume_from"]) == ("c1", "clustering", "timestamp")
    short = {"group": group, "generation": shown["generation"], "member_count": 1, "topics": [topic], "lag_total": 7}
    short |= {"model": "clustering", "consume_enabled": True}
    (listed,) = [each for each in http.get("/v1/groups").json()["groups"] if each["group"] == group]
    assert listed == {**short, "subscriptions_differ": False}


def test_a_group_that_only_nacked_is_known_with_its_retries(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    (sent,) = produce(http, topic, "x")
    assert is_problem(http.get(f"/v1/groups/{group}"), 404, "group_not_found")
    nack(http, group, {"message_id": sent["message_id"], "delay_level": -1})
    assert (view(http, group)["members"], members(http, group)["generation"]) == ([], 0)
    nack(http, f"{group}-2", {"message_id": sent["message_id"], "delay_level": 1})
    wait_until(lambda: view(http, f"{group}-2")["lag_total"] == 1)
    assert {group, f"{group}-2"} <= {each["group"] for each in http.get("/v1/groups").json()["groups"]}


def test_what_a_group_receives_is_its_lag_until_it_is_acknowledged(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, 1)
    produce(http, topic, "a", "b", "c")
    body = {"topic": topic, "max": 2, "wait_ms": 0}
    first, second = http.post(f"/v1/groups/{group}/receive", json=body).json()["messages"]
    assert view(http, group)["lag"][0]["lag"] == 3
    http.post(f"/v1/groups/{group}/acks", json={"receipts": [second["receipt"]]})
    assert view(http, group)["lag"][0]["lag"] == 3
    http.post(f"/v1/groups/{group}/acks", json={"receipts": [first["receipt"]]})
    shown = view(http, group)["lag"][0]
    assert (shown["offset"], shown["lag"]) == (2, 1)
    (listed,) = [each for each in http.get("/v1/groups").json()["groups"] if each["group"] == group]
    assert (listed["topics"], listed["lag_total"]) == ([topic], 1)


def test_what_is_not_there_is_a_404(http: httpx.Client, topic: str) -> None:
    for method, path in (("GET", ""), ("GET", "/members"), ("DELETE", "/members/c")):
        assert is_problem(http.request(method, f"/v1/groups/{topic}{path}"), 404, "group_not_found")
    response = http.get(f"/v1/groups/{topic}/offsets")
    assert (response.status_code, response.json()) == (200, {"offsets": []})


def subscription(**fields: Any) -> dict[str, Any]:
    return {"subscriptions": [{"topic": "t", "type": "tag", "expression": "*", **fields}]}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], "invalid_request"),
        ({"model": "all"}, "invalid_request"),
        ({"consume_from": "now"}, "invalid_request"),
        ({"consume_from": "timestamp"}, "invalid_request"),
        ({"consume_timestamp_ms": -1}, "invalid_request"),
        ({"consume_timestamp_ms": 1e400}, "invalid_request"),
        ({"subscriptions": {}}, "invalid_request"),
        ({"subscriptions": [{}]}, "invalid_request"),
        ({"subscriptions": [{"topic": "t"}, {"topic": "t"}]}, "invalid_request"),
        ({"subscriptions": [{"topic": "t"}] * 1_001}, "invalid_request"),
        ({"subscriptions": [{"topic": f"t{n}", "expression": "x" * 4_000} for n in range(17)]}, "invalid_request"),
        (subscription(topic=1), "invalid_request"),
        (subscription(type="sql"), "invalid_request"),
        (subscription(other=1), "invalid_request"),
        (subscription(topic="a b"), "invalid_topic"),
        (subscription(topic="\ud800"), "invalid_request"),
        (subscription(expression="\ud800"), "invalid_request"),
        (subscription(expression="A||"), "invalid_filter"),
        (subscription(expression="x" * 5_000), "invalid_request"),
        ({"other": 1}, "invalid_request"),
    ],
)
def test_a_malformed_heartbeat_is_a_400(http: httpx.Client, topic: str, body: Any, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    content = json.dumps(body)  # which writes what JSON doesn't have, too
    response = http.post(f"/v1/groups/{topic}/members/c/heartbeat", content=content, headers=headers)
    assert is_problem(response, 400, code)
    assert is_problem(http.get(f"/v1/groups/{topic}"), 404, "group_not_found")


@pytest.mark.parametrize(
    "path", ["a b/members/c/heartbeat", f"g/members/{'c' * 300}/heartbeat", "%25/members/c/heartbeat"]
)
def test_a_malformed_name_is_a_400(http: httpx.Client, path: str) -> None:
    assert is_problem(http.post(f"/v1/groups/{path}", json={}), 400, "invalid_request")


@pytest.mark.parametrize("query", ["generation=x", "generation=-1", "wait_ms=x", "wait_ms=-1", "wait_ms=60001"])
def test_a_malformed_wait_is_a_400(http: httpx.Client, topic: str, query: str) -> None:
    heartbeat(http, f"g-{topic}", "c", topic)
    assert is_problem(http.get(f"/v1/groups/g-{topic}/members?{query}"), 400, "invalid_request")


async def ask(gateway: GatewayProcess, method: str, path: str, body: str = "") -> bytes:
    """A request on a connection of its own; returns the answer's body."""
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} /v1/groups/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.split()[1] == b"200", answer
    return answer.partition(b"\r\n\r\n")[2]


async def one_leaves_while_all_wait(gateway: GatewayProcess) -> list[bytes]:
    joins = [ask(gateway, "POST", f"many/members/c{number:04}/heartbeat", "{}") for number in range(CLIENTS)]
    generation = max(json.loads(told)["generation"] for told in await asyncio.gather(*joins))
    assert generation == CLIENTS
    path = f"many/members?generation={generation}&wait_ms=60000"
    polls = [asyncio.create_task(ask(gateway, "GET", path)) for _ in range(CLIENTS)]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, trust_env=False) as http:
        while f"lakemq_waiting_requests {CLIENTS}." not in (await http.get("/metrics")).text:  # noqa: ASYNC110  of another process
            await asyncio.sleep(0.02)
    await ask(gateway, "DELETE", "many/members/c0000")
    return await asyncio.gather(*polls)


def test_one_leaving_is_told_to_1000_who_wait(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        answers = asyncio.run(one_leaves_while_all_wait(gateway))
        after = http.get("/v1/groups/many/members")
        assert len(after.json()["members"]) == CLIENTS - 1
        assert set(answers) == {after.content}
