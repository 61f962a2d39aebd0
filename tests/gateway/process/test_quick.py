"""Requests that are served without ASGI: what they answer and store is what the long way does.

A request that comes in one piece is quick; the same one in two pieces goes the long way.
"""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, pull_all, put_topic
from tests.gateway.routing.asking import begin

Answer = tuple[int, dict[str, str], Any]


def build(target: str, body: bytes, *headers: str) -> bytes:
    """A POST."""
    lines = [f"POST {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Client:
    """One connection that says how its requests are cut."""

    def __init__(self, gateway: GatewayProcess) -> None:
        host, port = gateway.url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def quick(self, *requests: bytes) -> None:
        """Send them in one piece."""
        self._socket.sendall(b"".join(requests))

    def long(self, request: bytes) -> None:
        """Send it in two."""
        self._socket.sendall(request[:-1])
        time.sleep(0.05)
        self._socket.sendall(request[-1:])

    def answer(self) -> Answer:
        """Read one answer."""
        status = int(self._file.readline().split()[1])
        headers: dict[str, str] = {}
        while line := self._file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        return status, headers, json.loads(self._file.read(int(headers["content-length"])))

    def ended(self) -> bool:
        """Whether the gateway closes the connection now."""
        return self._file.read(1) == b""


def alike(answer: Answer) -> tuple[int, dict[str, str], str]:
    """The answer without the numbers that differ from message to message."""
    status, headers, content = answer
    headers = {name: value for name, value in headers.items() if name not in ("content-length", "x-request-id")}
    content = {name: value for name, value in content.items() if name != "request_id"}  # which no other has
    return status, headers, re.sub(r"\d+", "0", re.sub(r"-[0-9a-f]{16}\b", "-nonce", json.dumps(content)))


def stored(http: httpx.Client, topic: str) -> list[dict[str, Any]]:
    """The topic's messages without where and when they were stored."""
    hidden = {"message_id", "queue_id", "queue_offset", "position", "store_time_ms", "born_time_ms"}
    hidden |= {"transaction_id", "origin_message_id"}
    return [{name: value for name, value in m.items() if name not in hidden} for m in pull_all(http, topic)]


@pytest.mark.parametrize("headers", [(), ("Content-Type: text/plain",), ("Content-Type: Image/PNG", "Accept: */*")])
@pytest.mark.parametrize("body", [b"hello", b"", b"\xff\x00", b"x" * 60_000])
def test_a_raw_message(
    gateway: GatewayProcess, http: httpx.Client, topic: str, headers: tuple[str, ...], body: bytes
) -> None:
    put_topic(http, topic)
    request = build(f"/v1/topics/{topic}/messages", body, *headers)
    with Client(gateway) as client:
        client.long(request) if body else client.quick(request)
        slow = client.answer()
        for query in ("", "?ack=async", "?ack=sync"):
            client.quick(build(f"/v1/topics/{topic}/messages{query}", body, *headers))
            assert alike(client.answer()) == alike(slow)
    assert slow[0] == 200
    first, *others = stored(http, topic)
    assert others == [first] * 3


SAID = [
    ("Lakemq-Tag: T",),
    ("Lakemq-Tag: T", "Content-Type: text/plain", "Lakemq-Keys: a, b,,c", "Lakemq-Property-Colour: red"),
    ("Lakemq-Ordering-Key: customer-7",),
    ("Lakemq-Queue-Id: 0",),
    ("Lakemq-Property-name: \u00fc",),
    ("Lakemq-Delay-Level: 0",),
    ("Lakemq-Deliver-At-Ms: 5",),
]
WRONG = [
    ("Lakemq-Colour: red",),
    ("Lakemq-Delay-Sm: 60000", "Lakemq-Tag: T"),
    ("Lakemq-Queue-Id: 4",),
    ("Lakemq-Queue-Id: two",),
    ("Lakemq-Tag: ",),
    ("Lakemq-Delay-Ms: 1", "Lakemq-Delay-Level: 1"),
    ("Lakemq-Delay-Ms: 99999999999999",),
    ("Lakemq-Tag: T", "Idempotency-Key: "),
]


@pytest.mark.parametrize("headers", [*SAID, *WRONG], ids=", ".join)
def test_a_raw_message_of_which_more_is_said(
    gateway: GatewayProcess, http: httpx.Client, topic: str, headers: tuple[str, ...]
) -> None:
    put_topic(http, topic)
    with Client(gateway) as client:
        client.quick(build(f"/v1/topics/{topic}/messages", b"warm"))  # only a topic that is known is quick
        client.answer()
        client.long(build(f"/v1/topics/{topic}/messages", b"x", *headers))
        slow = client.answer()
        for query in ("", "?ack=async", "?ack=sync"):
            client.quick(build(f"/v1/topics/{topic}/messages{query}", b"x", *headers))
            assert alike(client.answer()) == alike(slow)
    assert slow[0] == (200 if headers in SAID else 400 if "Id: 4" not in headers[0] else 404)
    _, *others = stored(http, topic)
    assert others == others[:1] * (4 if headers in SAID else 0)


def test_a_raw_message_with_a_delay(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, queues=1)
    request = build(f"/v1/topics/{topic}/messages", b"later", "Lakemq-Delay-Ms: 300", "Lakemq-Tag: T")
    with Client(gateway) as client:
        client.long(request)
        slow = client.answer()
        for _ in range(2):
            client.quick(request)
            assert alike(client.answer()) == alike(slow)
    pulled: list[dict[str, Any]] = []
    while len(pulled) < 3:
        query = {"offset": len(pulled), "wait_ms": 20_000}
        pulled += http.get(f"/v1/topics/{topic}/queues/0/messages", params=query).json()["messages"]
    assert [(message["body"], message["tag"]) for message in pulled] == [("later", "T")] * 3
    assert all(message["store_time_ms"] >= message["deliver_at_ms"] for message in pulled)


def test_sync_is_on_disk_before_its_answer(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    request = build(f"/v1/topics/{topic}/messages?ack=sync", b"x")
    with Client(gateway) as client:
        for _ in range(20):  # the first is parsed, the others' head is known
            client.quick(request)
            status, _, content = client.answer()
            assert status == 200
            flushed = http.get("/v1/broker").json()["flushed_position"]
            assert flushed > content["messages"][0]["position"]


def test_a_broker_set_to_sync_flush_is_so_for_quick_ones_too(tmp_path: Path) -> None:
    options = {"storage__flush": "sync", "storage__flush_interval_ms": 60_000}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http, Client(gateway) as client:
        put_topic(http, "t")
        for query in ("", "?ack=async", "?ack=sync") * 2:
            client.quick(build(f"/v1/topics/t/messages{query}", b"x"))
            status, _, content = client.answer()
            assert status == 200
            assert http.get("/v1/broker").json()["flushed_position"] > content["messages"][0]["position"]


def test_what_comes_behind_one_that_waits_for_the_disk_is_answered_after_it(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    sync, target = f"/v1/topics/{topic}/messages?ack=sync", f"/v1/topics/{topic}/messages"
    with Client(gateway) as client, Client(gateway) as other:
        client.quick(build(target, b"warm"))
        client.answer()
        client.quick(build(sync, b"0"), build(target, b"1"), build("/v1/nowhere", b""), build(sync, b"3"))
        assert [client.answer()[0] for _ in range(4)] == [200, 200, 404, 200]
        other.quick(build(sync, b"of one that leaves"))
    with Client(gateway) as client:
        client.quick(build(sync, b"last"))
        assert client.answer()[0] == 200
    bodies = [m["body"] for m in pull_all(http, topic)]
    assert [body for body in bodies if body != "of one that leaves"] == ["warm", "0", "1", "3", "last"]


def test_a_half_and_its_commit(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    begin(http, topic, "the topics are there")
    half = build(f"/v1/topics/{topic}/transactions?producer_group=pg", b"x")
    with Client(gateway) as client:
        answers: list[list[Answer]] = []
        for send in (client.long, client.quick):
            send(half)
            begun = client.answer()
            name = begun[2]["transactions"][0]["transaction_id"]
            done: list[Answer] = [begun]
            for resolution in ("commit", "commit", "rollback"):
                body = json.dumps({"producer_group": "pg", "resolution": resolution}).encode()
                send(build(f"/v1/transactions/{name}", body, "Content-Type: application/json"))
                done.append(client.answer())
            answers.append(done)
        assert [alike(each) for each in answers[0]] == [alike(each) for each in answers[1]]
        assert [each[0] for each in answers[1]] == [200, 200, 200, 409]
    first, second = stored(http, topic)
    assert first == second


def test_requests_that_come_together_are_answered_in_order(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    target = f"/v1/topics/{topic}/messages"
    requests = [
        build(target, b"0"),
        build(target, b"1", "Lakemq-Tag: T"),
        build("/v1/nowhere", b""),
        build(target, b"3"),
    ]
    with Client(gateway) as client:
        client.quick(build(target, b"warm"))
        client.answer()
        client.quick(*requests)
        assert [client.answer()[0] for _ in requests] == [200, 200, 404, 200]
    assert [m["body"] for m in pull_all(http, topic)] == ["warm", "0", "1", "3"]


def test_a_head_that_comes_again_is_looked_at_again_where_it_matters(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    target = f"/v1/topics/{topic}/messages"
    with Client(gateway) as client:
        for body in (b"aaa", b"bbb", b"ccc"):
            client.quick(build(target, body))
            assert client.answer()[0] == 200
        client.long(build(target, b"ddd"))
        assert client.answer()[0] == 200
        client.quick(build(target, b"eee"), build(target, b"fff"))
        client.quick(build(target, b"ggg"))
        assert [client.answer()[0] for _ in "efg"] == [200] * 3
        bodies = ["aaa", "bbb", "ccc", "ddd", "eee", "fff", "ggg"]
        assert [m["body"] for m in pull_all(http, topic)] == bodies
        http.delete(f"/v1/topics/{topic}").raise_for_status()
        client.quick(build(target, b"hhh"))
        assert client.answer()[0] == 200
    assert [m["body"] for m in pull_all(http, topic)] == ["hhh"]  # of the topic that was made anew


def test_what_looks_like_a_request_within_another_is_none(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """A piece as long as the last request, and with its head, counts as one only where a request may begin."""
    put_topic(http, topic)
    target = f"/v1/topics/{topic}/messages"
    again = build(target, b"again")
    with Client(gateway) as client:
        for _ in range(3):
            client.quick(again)
            assert client.answer()[0] == 200
        whole = build(target, b"begin" + again)
        client.quick(whole[: -len(again)])
        time.sleep(0.05)
        client.quick(again)
        assert client.answer()[0] == 200
        client.quick(build("/v1/nowhere", b"") + b"POST ")  # the next request has begun, after one that isn't quick
        assert client.answer()[0] == 404
        client.quick(again)
        assert client.answer()[0] == 400
        assert client.ended()
    assert [m["body"] for m in pull_all(http, topic)] == ["again"] * 3 + [("begin" + again.decode())]


def test_a_client_that_asks_for_it_is_let_go(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    request = build(f"/v1/topics/{topic}/messages", b"x")
    with Client(gateway) as client:
        client.quick(request)
        client.answer()
        client.quick(build(f"/v1/topics/{topic}/messages", b"x", "Connection: close"))
        assert client.answer()[0] == 200
        assert client.ended()


@pytest.mark.parametrize("name", ["RMQ_SYS_TOPICS", "a.b", "%25DLQ%25g"])
def test_topics_that_clients_cannot_write(gateway: GatewayProcess, name: str) -> None:
    with Client(gateway) as client:
        answers: list[Answer] = []
        for send in (client.long, client.quick):
            send(build(f"/v1/topics/{name}/messages", b"x"))
            answers.append(client.answer())
    assert alike(answers[0]) == alike(answers[1])
    assert answers[0][0] in (400, 403)
