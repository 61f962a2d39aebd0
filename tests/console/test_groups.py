"""A group's page: who is in it, what each has, and what the group failed at."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
import pytest

from lakemq.console.members import QUEUES_NAMED_MAX, held
from tests.console.visitor import Visitor
from tests.gateway.http_client import produce, put_topic
from tests.gateway.routing.asking import wait_until


def named(*queues: tuple[str, int], more: int = 0) -> dict[str, Any]:
    listed = [{"topic": topic, "queue_id": number} for topic, number in queues]
    return {"queues": listed, "queue_count": len(listed) + more}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({"queues": [], "queue_count": None}, "–"),
        ({}, "–"),
        (named(), "no queues"),
        (named(("b", 3), ("a", 1), ("b", 0), ("b", 1)), "a 1; b 0–1, 3"),
        (named(("a", 2), ("a", 3), ("a", 4), more=1), "a 2–4; and 1 more queue"),
        (named(more=7), "7 queues"),
        (
            named(*[("a", 2 * number) for number in range(QUEUES_NAMED_MAX + 2)]),
            f"a {', '.join(str(2 * number) for number in range(QUEUES_NAMED_MAX))}; and 2 more queues",
        ),
    ],
)
def test_queues_of_a_member_stand_by_topic(client: dict[str, Any], text: str) -> None:
    assert held(client) == text


def members_of(visitor: Visitor, group: str) -> str:
    """The table of members, as text."""
    page = visitor.get(f"/groups/{group}").partition('aria-label="Members"')[2].partition("</section>")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_each_member_has_its_queues_and_what_is_wrong_with_it(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name, 4)
    status = named((name, 0), (name, 1), (name, 3)) | {"buffered": 1_234, "stuck": 2, "paused": True}
    subscriptions = [{"topic": name, "type": "tag", "expression": "*"}]
    http.post(
        f"/v1/groups/{name}/members/c1/heartbeat", json={"client": status, "subscriptions": subscriptions}
    ).raise_for_status()
    http.post(f"/v1/groups/{name}/members/c2/heartbeat", json={"subscriptions": subscriptions}).raise_for_status()
    first, _, second = members_of(visitor, name).partition("c2")
    for each in (f"{name} 0–1, 3", "1,234", "paused", "2 stuck"):
        assert each in first
        assert each not in second
    http.put(f"/v1/groups/{name}/clients/c2", json={"consume_enabled": False}).raise_for_status()
    assert "paused" in members_of(visitor, name).partition("c2")[2]


def test_one_who_receives_without_being_a_member_has_no_name(visitor: Visitor, http: httpx.Client, name: str) -> None:
    """Regression: its client was None."""
    put_topic(http, name)
    produce(http, name, "x")
    http.post(f"/v1/groups/{name}/receive", json={"topic": name, "wait_ms": 0}).raise_for_status()
    members = members_of(visitor, name)
    assert "no name receives" in members
    assert "None" not in members


def test_a_group_shows_its_retries_and_dead_letters(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    later, dead = produce(http, name, "later", "dead")
    nacks = [
        {"message_id": later["message_id"], "delay_level": 18},
        {"message_id": dead["message_id"], "delay_level": -1},
    ]
    http.post(f"/v1/groups/{name}/nacks", json={"messages": nacks}).raise_for_status()
    wait_until(lambda: bool(http.get(f"/v1/groups/{name}/dead-letters").json()["dead_letters"]))

    def figures() -> dict[str, str]:
        return dict(re.findall(r"<dt>([^<]+)</dt><dd>(?:<a [^>]+>)?([^<]+)", visitor.get(f"/groups/{name}")))

    wait_until(lambda: (figures().get("In retry"), figures().get("Dead letters")) == ("1", "1"))
    assert figures()["Handed out"] == "0"
