"""Finding messages and why they weren't delivered, as a browser without scripts has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.console.test_pages import SCRIPT
from tests.console.visitor import Visitor
from tests.gateway.http_client import produce, put_topic
from tests.gateway.routing.asking import wait_until


@pytest.fixture
def filled(http: httpx.Client, name: str) -> str:
    put_topic(http, name)
    for number in range(60):
        message = {"body": f"body {number}.", "tag": "odd" if number % 2 else "even", "keys": ["all", f"k{number}"]}
        produce(http, name, message | {"properties": {"n": str(number), "x": SCRIPT}})
    return name


def to_the_end(visitor: Visitor, page: str, word: str) -> Iterator[str]:
    """The page, and all that its link of that name leads to: on a busy machine one look comes less far."""
    yield page
    while following := re.search(rf'href="([^"]+)">{word}', page):
        page = visitor.get(unescape(following[1]))
        yield page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tag": "odd"}, ["body 59.", "body 1."]),
        ({"property": "n=7"}, ["body 7."]),
        ({"text": "dy 12."}, ["body 12."]),
        ({"where": "tag = 'even' AND properties['n'] = '8'"}, ["body 8."]),
        ({"key": "k9", "tag": "odd"}, ["body 9."]),
        ({"key": "k9", "tag": "even"}, []),
        ({"property": f"x={SCRIPT}", "text": "dy 3."}, ["body 3."]),
    ],
)
def test_one_form_searches_by_all_that_messages_have(
    visitor: Visitor, filled: str, query: dict[str, str], found: list[str]
) -> None:
    page = visitor.get("/messages", topic=filled, **query)
    pages = list(to_the_end(visitor, page, "Go on"))
    for body in found:
        assert any(f">{body}<" in each for each in pages)
    assert "That is all there is." in pages[-1]
    assert any(f"No message of {filled} was found" not in each for each in pages) == bool(found)
    assert all("<script>alert" not in each for each in pages)
    for value in query.values():
        assert f'value="{value}"' in unescape(page)


def test_a_search_says_how_far_it_came_and_goes_on(visitor: Visitor, filled: str) -> None:
    for query in ({"property": "n"}, {"key": "all"}):
        first = visitor.get("/messages", topic=filled, **query)
        assert ("body 10." in first, ">body 9.<" in first) == (True, False)
        following = re.search(r'rel="next" href="([^"]+)"', first)
        assert following is not None
        second = visitor.get(unescape(following[1]))
        assert ">body 9.<" in second
        assert ">body 0.<" in second


def test_a_search_keeps_to_its_time_and_wrong_ones_are_told(visitor: Visitor, filled: str) -> None:
    assert "No message of" in visitor.get("/messages", topic=filled, tag="odd", until="2020-01-01T00:00")
    assert "body 1." in visitor.get("/messages", topic=filled, property="n=1", since="2020-01-01T00:00")
    for wrong in ({"since": "soon"}, {"where": "x ="}, {"where": "1 = 1) OR (1 = 1"}, {"topic": "", "tag": "odd"}):
        page = visitor.get("/messages", 400, **({"topic": filled} | wrong))
        assert 'role="alert"' in page
    visitor.get("/messages", 400, topic=filled, tag="odd", before="x")
    assert "No jobs answer SQL" in visitor.get("/messages", topic=filled, tag="odd", before="1", **{"in": "lake"})
    forged = visitor.get("/messages", 400, topic=filled, where="1 = 1) OR (1 = 1", before="1", **{"in": "lake"})
    assert 'role="alert"' in forged


def answers(page: str) -> list[str]:
    """What the page says of each group."""
    (listed,) = re.findall(r'<ul class="answers">(.*?)</ul>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in re.findall(r"<li.*?</li>", listed, re.DOTALL)]


def test_a_page_says_why_a_message_was_not_delivered(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    first, second = produce(http, name, {"body": "x", "tag": "a"}, {"body": "y"})
    behind, paused = f"{name}-1", f"{name}-2"
    for group, offset in ((behind, 1), (paused, 0)):
        content = {"offsets": [{"topic": name, "queue_id": 0, "offset": offset}]}
        http.put(f"/v1/groups/{group}/offsets", json=content).raise_for_status()
    http.put(f"/v1/groups/{paused}", json={"consume_enabled": False}).raise_for_status()
    wanted = {"topic": name, "max": 1, "invisible_ms": 60_000, "wait_ms": 10_000}
    (out,) = http.post(f"/v1/groups/{name}/receive", json=wanted).json()["messages"]
    nack = {"receipt": out["receipt"], "delay_level": -1, "reason": f"{SCRIPT} timeout"}
    http.post(f"/v1/groups/{name}/nacks", json={"messages": [nack]}).raise_for_status()
    path = f"/messages/{first['message_id']}"
    wait_until(lambda: "Became a dead letter" in visitor.get(path))
    page = visitor.get(path)
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    dead, waits, done = answers(page)
    assert dead.startswith(f"{name} Dead letter since")
    assert "The group is paused: it is at offset 0, this is at 0." in waits
    assert done.startswith(f"{behind} Consumed")
    assert any(
        "it is at offset 1, this is at 1" in each for each in answers(visitor.get(f"/messages/{second['message_id']}"))
    )


def test_a_page_says_what_a_message_waits_for(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    (late,) = produce(http, name, {"body": "x", "delay_ms": 600_000})
    (answer,) = answers(visitor.get(f"/messages/{late['message_id']}"))
    assert answer.startswith("It is delayed: no group gets it before")
    begun = http.post(f"/v1/topics/{name}/transactions?producer_group=pg", json={"messages": [{"body": "secret"}]})
    (half,) = begun.json()["transactions"]
    page = visitor.get(f"/messages/{half['message_id']}")
    assert answers(page)[0].startswith("It is a half message: no group gets it until producer group pg commits it.")
    assert "secret" not in page
    assert half["transaction_id"] not in page


def test_a_life_that_is_longer_than_one_look_is_looked_at_further(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    (stored,) = produce(http, name, {"body": "x"})
    wanted = {"topic": name, "max": 1, "invisible_ms": 60_000, "wait_ms": 10_000}
    receipt = http.post(f"/v1/groups/{name}/receive", json=wanted).json()["messages"][0]["receipt"]
    for _ in range(210):
        content = {"receipt": receipt, "invisible_ms": 60_000}
        receipt = http.post(f"/v1/groups/{name}/invisibility", json=content).json()["receipt"]
    page = visitor.get(f"/messages/{stored['message_id']}")
    assert "This page has not read all of the log" in page
    *_, whole = to_the_end(visitor, page, "Look further")
    assert "has not read all" not in whole
    assert whole.count("<strong>Handed out</strong>") == 211


def test_a_key_finds_what_waits_too(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    long = "long" * 60
    (late,) = produce(http, name, {"body": "x", "keys": [f"{name}-later", f"{name}-{long}"], "delay_ms": 600_000})
    content = {"messages": [{"body": "secret", "keys": [f"{name}-half"]}]}
    (half,) = http.post(f"/v1/topics/{name}/transactions?producer_group=pg", json=content).json()["transactions"]
    for key, message_id, said in (
        ("later", late["message_id"], "is delayed until"),
        (long, late["message_id"], "is delayed until"),
        ("half", half["message_id"], "is a half message: producer group pg hasn't committed it"),
    ):
        page = unescape(visitor.get("/messages", topic=name, key=f"{name}-{key}"))
        assert re.search(rf'href="/messages/{re.escape(message_id)}">{re.escape(message_id)}</a> {said}', page), key
        assert "No message of" not in page
        everywhere = unescape(visitor.get("/messages", key=f"{name}-{key}"))
        assert re.search(rf'href="/messages/{re.escape(message_id)}">{re.escape(message_id)}</a> {said}', everywhere)
    assert "No message of" in visitor.get("/messages", topic=name, key="another")


def test_a_key_alone_is_searched_in_all_topics(visitor: Visitor, http: httpx.Client, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        put_topic(http, topic)
        for number in range(30):
            produce(http, topic, {"body": f"{topic} {number}.", "keys": [f"key-{name}"]})
    first = visitor.get("/messages", key=f"key-{name}")
    assert f"{name}-b 0." in first
    assert f'<a href="/topics/{name}-b">{name}-b</a>' in first
    whole = "".join(to_the_end(visitor, first, "Go on"))
    assert all(f">{topic} {number}.<" in whole for topic in (f"{name}-a", f"{name}-b") for number in range(30))
    assert "No message was found" in visitor.get("/messages", key=f"none-{name}")
    assert "only a key" in visitor.get("/messages", 400, key=f"key-{name}", tag="t")
