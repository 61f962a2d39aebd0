"""Who looks: sessions, what they may, and what is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.console.sessions import Session, Sessions
from lakemq.console.tries import BURST, SECONDS_EACH, Tries
from lakemq.model.errors import SettingsError
from lakemq.settings import Console, load
from lakemq.testing import start_gateway
from lakemq.wire.credentials import NOBODY
from tests.console.visitor import ConsoleProcess, Guarded, Visitor, token_of, went_to
from tests.gateway.http_client import TLS


@pytest.fixture
def visitor(guarded: Guarded) -> Iterator[Visitor]:
    made = Visitor(guarded.console.url)
    yield made
    made.close()


def test_a_broker_that_wants_to_know_who_asks_leads_to_the_sign_in_and_back(visitor: Visitor, guarded: Guarded) -> None:
    asked = visitor.http.get("/topics?q=a%20b")
    assert asked.status_code == 303
    assert asked.headers["location"] == "/sign-in?why=token&next=%2Ftopics%3Fq%3Da%2520b"
    assert "the broker requires a token" in visitor.get(asked.headers["location"])
    signed = visitor.post("/sign-in", asked.headers["location"], token=f" {guarded.admin} ", next="/topics?q=a%20b")
    assert went_to(signed) == "/topics?q=a%20b"
    page = visitor.get(signed.headers["location"])
    assert "Sign out" in page
    assert "admin.token" in page


def test_an_empty_broker_shows_how_to_send_the_first_message(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, ConsoleProcess(gateway.url) as console:
        visitor = Visitor(console.url)
        assert "$LAKEMQ_TOKEN" not in visitor.get("/")
        visitor.sign_in((tmp_path / "data" / "admin.token").read_text("ascii"))
        page = visitor.get("/")
        visitor.close()
    assert f"curl -sS -X POST {gateway.url}/v1/topics/greetings/messages" in page
    assert "$LAKEMQ_TOKEN" in page
    assert "from lakemq.client import Producer" in page


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_is_new_with_each_sign_in(
    visitor: Visitor, guarded: Guarded
) -> None:
    first = visitor.http.get("/sign-in").headers["set-cookie"]
    assert {each.strip().lower() for each in first.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    before = dict(visitor.http.cookies)
    after = visitor.sign_in(guarded.admin).headers["set-cookie"]
    assert "samesite=strict" in after.lower()
    assert dict(visitor.http.cookies).keys() == before.keys()
    assert dict(visitor.http.cookies) != before
    with_old = httpx.get(f"{visitor.url}/topics", cookies=before, trust_env=False, verify=TLS, timeout=60)
    assert with_old.status_code == 303


def test_a_token_is_in_no_page_no_cookie_and_no_log(visitor: Visitor, guarded: Guarded) -> None:
    secret = guarded.admin.rsplit("_", 1)[1]
    signed = visitor.sign_in(guarded.admin)
    visitor.sign_in("lmq_0123456789abcdef_" + "0" * 64)
    pages = [visitor.get(each) for each in ("/", "/topics", "/sign-in")]
    told = [*pages, str(signed.headers), str(dict(visitor.http.cookies)), *guarded.console.log]
    assert not any(secret in each for each in told)


def test_one_who_signed_out_is_nobody(visitor: Visitor, guarded: Guarded) -> None:
    visitor.sign_in(guarded.admin)
    cookies = dict(visitor.http.cookies)
    assert went_to(visitor.post("/sign-out", "/")) == "/?done=signed-out"[:1]
    for kept in (cookies, dict(visitor.http.cookies)):
        assert (
            httpx.get(f"{visitor.url}/topics", cookies=kept, trust_env=False, verify=TLS, timeout=60).status_code == 303
        )


def test_what_a_user_may_not_is_not_offered_and_not_done(visitor: Visitor, guarded: Guarded) -> None:
    assert guarded.http.put("/v1/topics/orders", json={"queues": 1}).status_code in (200, 201)
    assert guarded.http.put("/v1/topics/secret", json={"queues": 1}).status_code in (200, 201)
    token = token_of(guarded.http, "reader", ("Topic:orders", ["Sub", "Get", "List"]))
    assert went_to(visitor.sign_in(token)) == "/"
    overview = visitor.get("/")
    assert "You may not see the metrics of" in overview
    assert "reader" in overview
    topics = visitor.http.get("/topics")
    assert topics.status_code in (200, 403)
    assert "New topic" not in topics.text
    page = visitor.get("/topics/orders")
    assert "Messages</a>" in page
    for word in ("Delete…", "Change</a>", "Send</a>"):
        assert word not in page
    assert "Not allowed" in visitor.get("/topics/secret", 403)
    refused = visitor.post("/topics/orders/delete", "/topics/orders/delete", name="orders")
    assert refused.status_code == 403
    assert "Delete on Topic:orders" in refused.text
    assert visitor.post("/send", topic="orders", body="x").status_code == 403
    assert guarded.http.get("/v1/topics/orders").status_code == 200


def test_a_user_with_few_rights_finds_its_own_messages_and_sees_no_groups_of_others(
    visitor: Visitor, guarded: Guarded
) -> None:
    http = guarded.http
    for topic in ("own", "others"):
        http.put(f"/v1/topics/{topic}", json={"queues": 1}).raise_for_status()
    sent: dict[str, dict[str, Any]] = {}
    for topic in ("own", "others"):
        content = {"messages": [{"body": f"body of {topic}", "tag": "t"}]}
        (sent[topic],) = http.post(f"/v1/topics/{topic}/messages", json=content).json()["messages"]
    for group in ("mine", "theirs"):
        content = {"offsets": [{"topic": "own", "queue_id": 0, "offset": 0}]}
        http.put(f"/v1/groups/{group}/offsets", json=content).raise_for_status()
    policies = (("Topic:own", ["Sub", "Get", "List"]), ("Group:mine", ["Sub", "Get"]))
    visitor.sign_in(token_of(http, "finder", *policies))
    assert "body of own" in visitor.get("/messages", topic="own", tag="t")
    assert "Not allowed" in visitor.get("/messages", 403, topic="others", tag="t")
    page = visitor.get(f"/messages/{sent['own']['message_id']}")
    assert "/groups/mine" in page
    assert "theirs" not in page
    assert "body of others" not in visitor.get(f"/messages/{sent['others']['message_id']}", 403)
    topic = visitor.get("/topics/own")
    assert "/groups/mine" in topic
    assert "theirs" not in topic
    visitor.get("/groups/theirs/dead-letters/export", 403, format="csv")
    half = http.post("/v1/topics/own/transactions?producer_group=pg", json={"messages": [{"body": "not yet"}]})
    (begun,) = half.json()["transactions"]
    page = visitor.get(f"/messages/{begun['message_id']}")
    assert "It is a half message" in page
    assert "not yet" not in page
    assert begun["transaction_id"] not in page


def test_what_is_done_is_audited_under_the_users_name(visitor: Visitor, guarded: Guarded) -> None:
    token = token_of(guarded.http, "writer", ("Topic:mine*", ["Create", "Get", "Delete"]))
    visitor.sign_in(token)
    assert went_to(visitor.post("/new-topic", name="mine-1", queues="1", permission="rw")) == "/topics/mine-1"
    assert went_to(visitor.post("/topics/mine-1/delete", name="mine-1")) == "/topics"
    audit = guarded.http.get("/v1/topics/RMQ_SYS_AUDIT_TOPIC/queues/0/messages", params={"offset": 0, "max": 1_000})
    said = [each["body"] for each in audit.json()["messages"] if "mine-1" in each["body"]]
    assert said
    assert all("writer" in each for each in said)


def test_a_token_that_is_deleted_ends_the_session(visitor: Visitor, guarded: Guarded) -> None:
    token = token_of(guarded.http, "leaver", ("Topic:*", ["Sub", "Get", "List"]))
    visitor.sign_in(token)
    assert guarded.http.delete(f"/v1/users/leaver/tokens/{token.split('_')[1]}").status_code == 204
    asked = visitor.http.get("/topics/orders")
    assert asked.status_code == 303
    assert asked.headers["location"].startswith("/sign-in?why=token")
    assert "Sign out" not in visitor.get("/sign-in")


def test_tokens_are_not_found_by_trying(guarded: Guarded) -> None:
    with ConsoleProcess(guarded.gateway.url) as console:
        visitor = Visitor(console.url)
        tokens = ("lmq_0123456789abcdef_" + "0" * 64, "no token")
        for number in range(BURST):
            wrong = visitor.sign_in(tokens[number % 2])
            assert wrong.status_code == 401
            assert 'role="alert"' in wrong.text
        for token in tokens:
            late = visitor.sign_in(token)
            while late.status_code == 401:  # seconds have passed, and with them comes another try
                late = visitor.sign_in(token)
            assert late.status_code == 429
            assert "Too many attempts" in late.text
        # Whoever fails locks nobody out: others may have the same address.
        assert went_to(visitor.sign_in(guarded.admin)) == "/"
        visitor.close()


def test_where_it_takes_a_token_to_look_nobody_looks_without(guarded: Guarded) -> None:
    with ConsoleProcess(guarded.gateway.url, console__sign_in_required=True) as console:
        visitor = Visitor(console.url)
        for path in ("/", "/topics", "/live/overview", "/nothing-here", "/messages/a-1.0"):
            response = visitor.http.get(path)
            assert response.status_code == 303
            assert response.headers["location"].startswith("/sign-in?next=%2F")
        assert visitor.get("/healthz") == '{"status":"up"}'
        assert went_to(visitor.sign_in(guarded.admin, next="//evil.test")) == "/"
        assert "Sign out" in visitor.get("/")
        visitor.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"LAKEMQ_CONSOLE__HOST": "0.0.0.0"},
            "console.host is 0.0.0.0: access from other machines needs auth.required",
        ),
        ({"LAKEMQ_CONSOLE__REQUEST_BYTES_MAX": "200000000"}, "console.request_bytes_max is above"),
    ],
)
def test_settings_that_can_not_be_are_said(settings: dict[str, str], said: str, tmp_path: Path) -> None:
    (file := tmp_path / "empty.toml").touch()
    with pytest.raises(SettingsError, match=re.escape(said)):
        load(file, environment=settings)


def test_tries_come_back_with_time_and_are_of_a_network_of_ipv6() -> None:
    tries = Tries()
    for _ in range(BURST):
        assert tries.wait_s("2001:db8::1", 100.0) == 0
        tries.failed("2001:db8::1", 100.0)
    assert tries.wait_s("2001:db8::2", 100.0) == pytest.approx(SECONDS_EACH)
    assert tries.wait_s("2001:db8:0:1::1", 100.0) == 0
    assert tries.wait_s("2001:db8::2", 100.0 + SECONDS_EACH) == 0
    for number in range(5_000):
        tries.failed(f"10.0.{number // 256}.{number % 256}", 100.0)
    assert tries.wait_s("2001:db8::1", 100.0) == 0  # it is bounded, so the oldest is forgotten


def test_sessions_end_unused_after_a_day_and_when_there_are_too_many() -> None:
    ended: list[str] = []
    limits = Console(sessions_max=2, session_idle_ms_max=60_000, session_ms_max=120_000)
    sessions = Sessions(limits, lambda session: ended.append(session.user))
    a, b = (sessions.begin(Session(user, NOBODY, (), 0.0)) for user in "ab")
    assert sessions.find(a, 50.0) is not None
    assert sessions.find(b, 61.0) is None
    assert sessions.find(a, 100.0) is not None
    assert sessions.find(a, 121.0) is None
    assert ended == ["b", "a"]
    names = [sessions.begin(Session(user, NOBODY, (), 200.0)) for user in "cde"]
    assert (len(sessions), ended) == (2, ["b", "a", "c"])
    assert len(set(names)) == 3
    sessions.sweep(261.0)
    assert (len(sessions), ended) == (0, ["b", "a", "c", "d", "e"])
    assert sessions.is_form_token("x", sessions.form_token("x"))
    assert not sessions.is_form_token("y", sessions.form_token("x"))


def test_who_signs_in_often_ends_sessions_of_their_own_and_not_of_others() -> None:
    ended: list[str] = []
    sessions = Sessions(Console(sessions_max=4, client_share=0.5), lambda session: ended.append(session.user))
    others = [sessions.begin(Session(user, NOBODY, (), 0.0)) for user in "ab"]
    own = [sessions.begin(Session("many", NOBODY, (), 1.0)) for _ in range(9)]
    assert ended == ["many"] * 7
    assert all(sessions.find(each, 1.0) for each in (*others, *own[-2:]))
    assert not any(sessions.find(each, 1.0) for each in own[:-2])
    sessions.begin(Session("b", NOBODY, (), 1.0))
    assert sessions.find(others[1], 1.0) is None  # as the console is full, and "b" has one
    assert sessions.find(others[0], 1.0) is not None
    for name in (*others, *own):
        sessions.end(name)
    assert len(sessions) == 1
