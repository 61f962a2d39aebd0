"""Who may do something to a group learns by it nothing of topics that he may not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.model.access import Action
from lakemq.testing import start_gateway
from tests.gateway.access.asking import allow, ask_as, deny, give, make_user, token_of
from tests.gateway.groups.asking import commit, heartbeat, lock, members, offsets, view
from tests.gateway.http_client import is_problem

HIDDEN, OPEN, ABSENT = "hidden-orders", "open", "hidden-absent"
POLICIES = [
    allow("Group:*", *[each.value for each in Action]),
    allow("Topic:*", "Sub"),
    deny("Topic:hidden-*", "Sub", "Get"),
]


class Scene(NamedTuple):
    """A gateway that asks everybody who he is, its administrator, and one who may do all to groups and read `open`."""

    admin: httpx.Client
    user: httpx.Client


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data = tmp_path_factory.mktemp("topics-of-groups") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        for topic in (HIDDEN, OPEN):
            assert admin.put(f"/v1/topics/{topic}", json={"queues": 2}).status_code == 201
            sent = admin.post(f"/v1/topics/{topic}/messages", json={"messages": [{"body": "x"}] * 4})
            assert sent.status_code == 200
        with ask_as(gateway, make_user(admin, "ulla", *POLICIES)) as user:
            yield Scene(admin, user)


ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "offsets/reset", {"topic": "?", "to": "latest"}),
    ("PUT", "offsets", {"offsets": [{"topic": "?", "queue_id": 0, "offset": 10_000}]}),
    ("POST", "members/c/heartbeat", {"subscriptions": [{"topic": OPEN}, {"topic": "?"}]}),
    ("POST", "locks", {"client_id": "c", "queues": [{"topic": "?", "queue_id": 0}]}),
    ("DELETE", "locks", {"client_id": "c", "queues": [{"topic": "?", "queue_id": 0}]}),
]


@pytest.mark.parametrize(("method", "path", "content"), ASKED, ids=[f"{each[0]} {each[1]}" for each in ASKED])
def test_what_names_a_topic_is_refused_alike_whether_that_is_there_or_not(
    scene: Scene, method: str, path: str, content: dict[str, Any]
) -> None:
    refusals: list[str] = []
    for topic in (HIDDEN, ABSENT):
        asked = json.loads(json.dumps(content).replace("?", topic))
        answer = scene.user.request(method, f"/v1/groups/mine/{path}", json=asked)
        assert is_problem(answer, 403, "forbidden")
        said = answer.json() | {"request_id": ""}
        refusals.append(json.dumps(said).replace(topic, "topic"))
    assert len(set(refusals)) == 1
    assert "on Topic:topic" in refusals[0]
    assert is_problem(scene.admin.get("/v1/groups/mine"), 404, "group_not_found")


def test_nothing_is_shown_of_topics_that_one_may_not_read(scene: Scene) -> None:
    admin, user, group = scene.admin, scene.user, "shared"
    heartbeat(admin, group, "a", HIDDEN, OPEN, consume_from="first")
    for topic in (HIDDEN, OPEN):
        commit(admin, group, topic, {0: 1})
        lock(admin, group, "a", topic, 0)
    whole, seen = view(admin, group), view(user, group)
    for name in ("subscriptions", "lag", "locks"):
        assert {each["topic"] for each in whole[name]} == {HIDDEN, OPEN}
        assert {each["topic"] for each in seen[name]} == {OPEN}
    assert [each["topic"] for each in seen["clients"][0]["subscriptions"]] == [OPEN]
    assert ("partial" in whole, seen["partial"]) == (False, True)
    assert seen["lag_total"] == sum(each["lag"] for each in seen["lag"]) < whole["lag_total"]
    assert offsets(user, group, OPEN) == {0: 1}
    assert offsets(user, group, HIDDEN) == {}
    assert {each["topic"] for each in user.get(f"/v1/groups/{group}/offsets").json()["offsets"]} == {OPEN}
    for client, topics, partial in ((admin, [HIDDEN, OPEN], False), (user, [OPEN], True)):
        (listed,) = [each for each in client.get("/v1/groups").json()["groups"] if each["group"] == group]
        assert (listed["topics"], listed.get("partial", False)) == (topics, partial)
        assert listed["lag_total"] == (whole if client is admin else seen)["lag_total"]


def test_members_are_told_how_they_differ_in_topics_of_theirs_alone(scene: Scene) -> None:
    admin, user, group = scene.admin, scene.user, "differing"
    heartbeat(admin, group, "a", HIDDEN, OPEN)
    told = heartbeat(user, group, "b")
    assert told["subscriptions_differ"]
    assert [each["topic"] for each in told["differences"]] == [OPEN]
    assert members(user, group)["differences"] == told["differences"] == view(user, group)["differences"]
    assert [each["topic"] for each in members(admin, group)["differences"]] == [HIDDEN, OPEN]
    left = user.delete(f"/v1/groups/{group}/members/b").json()
    assert not left["subscriptions_differ"]


def test_a_groups_own_topics_are_its_users(scene: Scene) -> None:
    admin, user, group = scene.admin, scene.user, "retrying"
    sent = admin.post(f"/v1/topics/{OPEN}/messages", json={"messages": [{"body": "x"}]}).json()["messages"][0]
    nack = {"messages": [{"message_id": sent["message_id"], "delay_level": -1}]}
    assert user.post(f"/v1/groups/{group}/nacks", json=nack).is_success
    dead = f"%DLQ%{group}"
    try:
        give(admin, "ulla", [allow(f"Group:{group}", "Sub", "Update")])
        heartbeat(user, group, "c", f"%RETRY%{group}", dead)
        assert commit(user, group, dead, {0: 1}) == {0: 1}
        assert lock(user, group, "c", dead, 0) == [0]
        assert [(each["topic"], each["lag"]) for each in view(user, group)["lag"]] == [(dead, 0)]
        assert "partial" not in view(user, group)
        assert is_problem(
            user.post("/v1/groups/other/offsets/reset", json={"topic": dead, "to": "latest"}), 403, "forbidden"
        )
        give(admin, "ulla", [allow(f"Group:{group}", "Update")])
        assert user.post(f"/v1/groups/{group}/offsets/reset", json={"topic": dead, "to": "earliest"}).is_success
    finally:
        give(admin, "ulla", POLICIES)


def test_who_may_list_topics_sees_how_far_groups_are_behind(scene: Scene) -> None:
    admin = scene.admin
    commit(admin, "watched", HIDDEN, {0: 0})
    watcher = make_user(admin, "wanda", allow("Topic:*", "List"), allow("Group:*", "Get", "List"))
    with httpx.Client(base_url=admin.base_url, headers={"Authorization": f"Bearer {watcher}"}, timeout=60) as wanda:
        assert {each["topic"] for each in view(wanda, "watched")["lag"]} == {HIDDEN}
        assert wanda.get("/v1/topics").json()["topics"]
