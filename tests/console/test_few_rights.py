"""A user with few rights: it finds what it may do, is offered nothing else, and the console asks for nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.visitor import Guarded, Visitor, token_of, went_to
from tests.gateway.routing.asking import wait_until


@pytest.fixture
def visitor(guarded: Guarded) -> Iterator[Visitor]:
    made = Visitor(guarded.console.url)
    yield made
    made.close()


def reader(visitor: Visitor, guarded: Guarded, name: str, *more: tuple[str, list[str]]) -> None:
    """Sign in as a user who may read one topic, as one group; with a message in it, and an offset of the group."""
    guarded.http.put(f"/v1/topics/{name}", json={"queues": 1}).raise_for_status()
    message = {"messages": [{"body": f"body of {name}", "keys": [f"key-{name}"]}]}
    guarded.http.post(f"/v1/topics/{name}/messages", json=message).raise_for_status()
    offsets = {"offsets": [{"topic": name, "queue_id": 0, "offset": 0}]}
    guarded.http.put(f"/v1/groups/g-{name}/offsets", json=offsets).raise_for_status()
    visitor.sign_in(token_of(guarded.http, name, (f"Topic:{name}", ["Sub"]), (f"Group:g-{name}", ["Sub"]), *more))


def add_policies(visitor: Visitor, guarded: Guarded, name: str, *more: dict[str, Any]) -> None:
    """More policies for that user, who signs in again: the console knows rights for some seconds."""
    had = guarded.http.get(f"/v1/users/{name}/policies").json()["policies"]
    guarded.http.put(f"/v1/users/{name}/policies", json={"policies": [*had, *more]}).raise_for_status()
    visitor.sign_in(guarded.http.post(f"/v1/users/{name}/tokens", json={}).json()["token"])


def refused(guarded: Guarded, user: str) -> list[str]:
    """What the audit says was refused to a user."""
    params = {"offset": 0, "max": 1_000}
    audit = guarded.http.get("/v1/topics/RMQ_SYS_AUDIT_TOPIC/queues/0/messages", params=params).json()["messages"]
    return [each["body"] for each in audit if each["tag"] == "refused" and json.loads(each["body"])["user"] == user]


def test_topics_and_groups_that_policies_name_are_links_where_a_user_may_not_list(
    visitor: Visitor, guarded: Guarded, name: str
) -> None:
    reader(visitor, guarded, name, (f"Topic:many-{name}*", ["Pub"]), (f"Topic:denied-{name}", ["Sub"]))
    denied = {"resource": f"Topic:denied-{name}", "actions": ["Sub"]}
    add_policies(visitor, guarded, name, denied | {"decision": "deny"})
    topics, groups = visitor.get("/topics"), visitor.get("/groups")
    assert f'<a href="/topics/{name}">{name}</a>' in topics
    assert f"names begin with many-{name}." in topics
    assert f"denied-{name}" not in topics
    assert "New topic" not in topics
    assert f'<a href="/groups/g-{name}">g-{name}</a>' in groups
    for kind, other in (("topics", name), ("groups", f"g-{name}")):
        assert went_to(visitor.http.get(f"/{kind}", params={"name": f" {other}"})) == f"/{kind}/{other}"
        visitor.get(f"/{kind}/{other}")
    assert went_to(visitor.http.get("/topics", params={"name": "a/../b?c"})) == "/topics/a%2F..%2Fb%3Fc"


def test_what_a_user_may_not_do_is_not_offered(visitor: Visitor, guarded: Guarded, name: str) -> None:
    reader(visitor, guarded, name, (f"Group:g-{name}", ["Update"]), ("Topic:other", ["Get"]))
    schema = {"type": "json", "schema": '{"type": "object", "properties": {"a": {"type": "integer"}}}'}
    guarded.http.put(f"/v1/topics/{name}/schema", json=schema).raise_for_status()
    offsets = {"offsets": [{"topic": f"hidden-{name}", "queue_id": 0, "offset": 0}]}
    guarded.http.put(f"/v1/topics/hidden-{name}", json={"queues": 1}).raise_for_status()
    guarded.http.put(f"/v1/groups/g-{name}/offsets", json=offsets).raise_for_status()
    assert "Send a message" not in visitor.get("/messages")
    assert "version 1, 1 columns" in (topic := visitor.get(f"/topics/{name}"))
    assert "Query it" not in topic
    group = visitor.get(f"/groups/g-{name}")
    assert f"<option>{name}</option>" in group
    assert f"hidden-{name}" not in group
    assert "from the lake" not in group
    more = [{"resource": "Topic:x", "actions": ["Pub"]}, {"resource": "Lake:*", "actions": ["Sql"]}]
    add_policies(visitor, guarded, name, *more)
    assert "Send a message" in visitor.get("/messages")
    assert "Query it" in visitor.get(f"/topics/{name}")
    assert "from the lake" in visitor.get(f"/groups/g-{name}")


def test_a_key_is_searched_in_the_topics_that_a_user_may_read(visitor: Visitor, guarded: Guarded, name: str) -> None:
    reader(visitor, guarded, name)
    other = f"other-{name}"
    guarded.http.put(f"/v1/topics/{other}", json={"queues": 1}).raise_for_status()
    message = {"messages": [{"body": f"body of {other}", "keys": [f"key-{name}"]}]}
    guarded.http.post(f"/v1/topics/{other}/messages", json=message).raise_for_status()
    page = visitor.get("/messages", key=f"key-{name}")
    assert (f"body of {name}" in page, other in page) == (True, False)
    add_policies(visitor, guarded, name, {"resource": "Topic:*", "actions": ["List"]})
    page = visitor.get("/messages", key=f"key-{name}")
    assert (f"body of {name}" in page, other in page) == (True, False)
    assert "not searched: you may not read them." in page
    visitor.sign_in(guarded.admin)
    page = visitor.get("/messages", key=f"key-{name}")
    assert (f"body of {name}" in page, f"body of {other}" in page) == (True, True)


def test_the_console_asks_for_nothing_that_a_user_may_not_see(visitor: Visitor, guarded: Guarded, name: str) -> None:
    reader(visitor, guarded, name)
    (stored,) = guarded.http.get(f"/v1/topics/{name}/queues/0/messages", params={"offset": 0}).json()["messages"]
    message, group = f"/messages/{stored['message_id']}", f"/groups/g-{name}"
    pages = ("/", "/topics", "/messages", "/groups", "/waiting", "/jobs", "/sql", "/people")
    topic = f"/topics/{name}"
    for path in (*pages, topic, f"{topic}/queues", f"{topic}/messages", message, group):
        visitor.get(path)
    for path in (f"{group}/dead-letters", f"{group}/dead-letters/causes", "/dead-letters", "/dead-letters/causes"):
        visitor.get(path)
    visitor.get(group, lag="1h")
    for query in ({"key": "k"}, {"tag": "t", "topic": name}):
        visitor.get("/messages", **query)
    visitor.get("/topics/hidden/queues")  # which says that it may not see it
    visitor.get("/topics/secret", 403)  # this one is to be in the audit, and comes after all others
    wait_until(lambda: bool(refused(guarded, name)))
    assert [each["what"] for each in map(json.loads, refused(guarded, name))] == ["GET /v1/topics/secret"]


def test_from_where_clients_are_is_shown_to_those_who_may_know(visitor: Visitor, guarded: Guarded, name: str) -> None:
    reader(visitor, guarded, name)
    beat = {"subscriptions": [{"topic": name, "expression": "*"}]}
    guarded.http.post(f"/v1/groups/g-{name}/members/m-1/heartbeat", json=beat).raise_for_status()
    producer = {"topics": [name], "language": "curl"}
    guarded.http.put("/v1/clients/p-1", json=producer).raise_for_status()
    for path, client in ((f"/groups/g-{name}", "m-1"), (f"/topics/{name}", "p-1")):
        page = visitor.get(path)
        assert (client in page, "<th>From</th>" in page) == (True, False)
    visitor.sign_in(guarded.admin)
    for path in (f"/groups/g-{name}", f"/topics/{name}"):
        assert '<td data-label="From"><span>127.0.0.1 <span class="tag">admin.token</span>' in visitor.get(path)
