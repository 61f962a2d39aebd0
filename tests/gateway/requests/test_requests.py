"""Requests and replies."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import (
    ARROW,
    ask_and_go,
    connect,
    is_problem,
    produce,
    pull,
    pull_all,
    put_topic,
    write_arrow,
)
from tests.gateway.routing.asking import wait_until

JSON = {"Content-Type": "application/json"}


def ask(
    http: httpx.Client, topic: str, content: Any = "ping", timeout_ms: int = 30_000, **options: Any
) -> httpx.Response:
    """Send a request, a text is its body as it is; returns the answer."""
    if isinstance(content, dict):
        options["json"] = content
    else:
        options["content"] = content
    return http.post(f"/v1/topics/{topic}/requests", params={"timeout_ms": timeout_ms}, **options)


def reply(http: httpx.Client, correlation_id: str, content: Any = "pong", **options: Any) -> httpx.Response:
    """Reply to a request; returns the answer."""
    if isinstance(content, dict):
        return http.post(f"/v1/replies/{correlation_id}", json=content, **options)
    return http.post(f"/v1/replies/{correlation_id}", content=content, **options)


def next_request(http: httpx.Client, topic: str, offset: int = 0) -> dict[str, Any]:
    """The request at an offset of queue 0, once it is there."""
    return pull(http, topic, offset=offset, wait_ms=30_000)["messages"][0]


def test_whoever_asks_is_answered_with_the_reply(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, http, topic, {"body": "ping", "tag": "T", "properties": {"a": "b"}})
        with connect(gateway) as other:
            request = next_request(other, topic)
            assert (request["body"], request["tag"], request["properties"]["a"]) == ("ping", "T", "b")
            assert request["properties"]["ttl_ms"] == "30000"
            correlation_id = request["properties"]["correlation_id"]
            content = {"body": "pong", "tag": "R", "keys": ["k"], "properties": {"c": "d"}}
            replied = reply(other, correlation_id, content)
            assert replied.status_code == 200
            assert is_problem(reply(other, correlation_id), 404, "request_not_found")
        answer = asking.result()
    assert answer.status_code == 200
    message = answer.json()
    assert (message["body"], message["body_encoding"], message["tag"], message["keys"]) == ("pong", "utf-8", "R", ["k"])
    assert message["properties"] == {"c": "d", "correlation_id": correlation_id}
    assert replied.json() == message
    assert http.get(f"/v1/messages/{message['message_id']}").json() == message


@pytest.mark.parametrize(
    ("content", "headers", "body"),
    [
        (b"\xff\x00", {}, base64.b64encode(b"\xff\x00").decode()),
        (b"hi", {"Content-Type": "text/plain", "Lakemq-Tag": "T"}, "hi"),
        (b'{"messages": [{"body": "one"}]}', JSON, "one"),
        (b'{\n "body": "one"\n}', JSON, "one"),
        (b'{"body": "a line"}\n', {"Content-Type": "application/x-ndjson"}, "a line"),
        (b'{"specversion": "1.0", "id": "1", "source": "s", "type": "T", "data": "x"}',
         {"Content-Type": "application/cloudevents+json"}, '"x"'),
        (b"x", {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "T"}, "x"),
        (b"x" * 1_000_000, {}, "x" * 1_000_000),
    ],
)  # fmt: skip
def test_requests_and_replies_have_any_form_of_one_message(
    gateway: GatewayProcess, http: httpx.Client, topic: str, content: bytes, headers: dict[str, str], body: str
) -> None:
    put_topic(http, topic)
    with ThreadPoolExecutor(1) as pool, connect(gateway) as other:
        asking = pool.submit(ask, http, topic, content, headers=headers)
        request = next_request(other, topic)
        assert reply(other, request["properties"]["correlation_id"], content, headers=headers).status_code == 200
        assert asking.result().json()["body"] == request["body"] == body


def test_a_request_that_nobody_answers_in_time_is_a_504(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    assert is_problem(ask(http, topic, timeout_ms=30), 504, "request_timeout")
    late = next_request(http, topic)["properties"]["correlation_id"]
    assert is_problem(reply(http, late), 404, "request_not_found")


def test_many_ask_at_once_and_each_has_its_own_reply(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    asked = [str(number) for number in range(40)]
    with ThreadPoolExecutor(len(asked)) as pool, connect(gateway) as other:
        answers: list[Future[httpx.Response]] = [pool.submit(ask, http, topic, number) for number in asked]
        wait_until(lambda: len(pull_all(other, topic)) == len(asked))
        for request in reversed(pull_all(other, topic)):
            reply(other, request["properties"]["correlation_id"], f"re {request['body']}")
        assert [answer.result().text for answer in answers if answer.result().status_code != 200] == []
        assert [answer.result().json()["body"] for answer in answers] == [f"re {number}" for number in asked]


def test_what_is_not_one_message_is_no_request(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    two = b'{"messages": [{"body": "a"}, {"body": "b"}]}'
    malformed: list[tuple[bytes, dict[str, str]]] = [
        (two, JSON),
        (b'{"messages": []}', JSON),
        (b'{"body": 1}', JSON),
        (b"[]", JSON),
        (b"3", JSON),
        (b"{", JSON),
        (b'{"body": "a", "x": 1}', JSON),
        (b'{"body": "a"}\n{"body": "b"}', {"Content-Type": "application/x-ndjson"}),
        (b'{"body": "a", "delay_level": 1}', JSON),
        (b"a", {"Lakemq-Delay-Ms": "10"}),
        (b"a", {"Content-Type": "application/json; charset=latin-1"}),
    ]
    for content, headers in malformed:
        for response in (
            http.post(f"/v1/topics/{topic}/requests", content=content, headers=headers),
            http.post("/v1/replies/none", content=content, headers=headers),
        ):
            assert response.status_code in (400, 404, 415), response.text
    columns = write_arrow({"body": [b"a"]})
    response = http.post(f"/v1/topics/{topic}/requests", content=columns, headers={"Content-Type": ARROW})
    assert is_problem(response, 415, "unsupported_media_type")
    for query in ("timeout_ms=0", "timeout_ms=60001", "timeout_ms=x", "x=1"):
        assert is_problem(http.post(f"/v1/topics/{topic}/requests?{query}", content=b"a"), 400, "invalid_request")
    assert is_problem(http.post("/v1/replies/a?x=1", content=b"a"), 400, "invalid_request")
    assert is_problem(http.post("/v1/topics/a b/requests", content=b"a"), 400, "invalid_topic")
    assert is_problem(http.post("/v1/topics/RMQ_SYS_X/requests", content=b"a"), 403, "read_only_topic")
    assert http.get("/v1/topics/%25DLQ%25x/requests").status_code in (404, 405)
    content = {"body": "a", "queue_id": 5}
    assert is_problem(ask(http, topic, content), 404, "queue_not_found")
    assert pull_all(http, topic) == []


def test_who_goes_away_waits_no_more(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        put_topic(http, "t")
        ask_and_go(fresh_gateway, http, "POST", "/v1/topics/t/requests?timeout_ms=60000", b'{"body": "ping"}')
        correlation_id = next_request(http, "t")["properties"]["correlation_id"]
        assert is_problem(reply(http, correlation_id), 404, "request_not_found")


def test_requests_that_wait_are_bounded_and_a_stop_answers_them(tmp_path: Path) -> None:
    # A request that was stored waits, whoever else does: it must not be sent again.
    options = {"requests__waiting_max": 1, "gateway__waiters_max": 1}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http, connect(gateway) as poller:
        put_topic(http, "t")
        put_topic(http, "u")
        polling = threading.Thread(target=lambda: pull(poller, "u", wait_ms=60_000))
        polling.start()
        wait_until(lambda: "lakemq_waiting_requests 1." in http.get("/metrics").text)
        with ThreadPoolExecutor(1) as pool, connect(gateway) as other:
            asking = pool.submit(ask, http, "t")
            wait_until(lambda: len(pull_all(other, "t")) == 1)
            response = ask(other, "t")
            assert is_problem(response, 503, "busy")
            assert response.headers["retry-after"] == "1"
            assert len(pull_all(other, "t")) == 1
            gateway.stop()
            assert is_problem(asking.result(), 503, "busy")
        polling.join()


def test_requests_of_one_client_leave_room_for_those_of_others(tmp_path: Path) -> None:
    """One took all places, and nobody else was answered."""
    options = {"requests__waiting_max": 2, "gateway__client_share": 0.5}
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with (
        start_gateway(tmp_path, **options) as gateway,
        connect(gateway) as http,
        httpx.Client(base_url=gateway.url, transport=elsewhere, timeout=60) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        put_topic(http, "t")
        with connect(gateway) as asker:
            asking = [pool.submit(ask, asker, "t")]
            wait_until(lambda: len(pull_all(http, "t")) == 1)
            response = ask(http, "t")
            assert is_problem(response, 503, "busy")
            assert "gateway.client_share" in response.json()["detail"]
            asking.append(pool.submit(ask, other, "t"))
            wait_until(lambda: len(pull_all(http, "t")) == 2)
            for message in pull_all(http, "t"):
                assert reply(http, message["properties"]["correlation_id"]).status_code == 200
            assert [each.result().status_code for each in asking] == [200, 200]


def test_a_request_from_before_a_kill_has_no_reply(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        with ThreadPoolExecutor(1) as pool, connect(gateway) as other:
            asking = pool.submit(ask, http, "t")
            correlation_id = next_request(other, "t")["properties"]["correlation_id"]
            gateway.kill()
            assert isinstance(asking.exception(), httpx.TransportError)
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert is_problem(reply(http, correlation_id), 404, "request_not_found")
        produce(http, "t", "after")
