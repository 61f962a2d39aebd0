"""A gateway behind nginx: what its clients see, and whom it takes them for."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from lakemq.client import Producer
from lakemq.testing import GatewayProcess, start_gateway
from tests.certificates import NAMES, Authority
from tests.gateway.http_client import Connection, connect, is_problem, put_topic, waiting
from tests.ports import Ports
from tests.web.nginx import find_nginx, nginx

NAME = "mq.example.com"
INSIDE, OUTSIDE = "127.0.0.2", "127.0.0.3"
"""Addresses of clients: all of loopback's are this machine's."""
MESSAGES = "/v1/topics/orders/messages"
POLL = "/v1/topics/orders/queues/0/messages?offset={}&wait_ms=60000"


class Front(NamedTuple):
    """A gateway and the proxy in front of it."""

    gateway: GatewayProcess
    url: str
    ca: Path
    token: str
    """Of a user who may send and read from `INSIDE` alone."""

    def client(self, address: str = INSIDE, url: str = "", **headers: str) -> httpx.Client:
        transport = httpx.HTTPTransport(verify=ssl.create_default_context(cafile=self.ca), local_address=address)
        said = {"Authorization": f"Bearer {self.token}", **headers}
        return httpx.Client(base_url=url or self.url, transport=transport, headers=said, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[Front]:
    find_nginx()
    folder = tmp_path_factory.mktemp("proxy")
    authority = Authority(folder / "tls")
    pair = authority.pair("proxy", f"{NAMES},DNS:{NAME}")
    options = {"auth__required": "true", "gateway__hosts": NAME, "gateway__trusted_proxies": "127.0.0.1"}
    with start_gateway(folder / "data", **options) as gateway, connect(gateway) as admin:
        put_topic(admin, "orders")
        token = _user(admin, "rita", INSIDE)
        port = ports.take()
        with nginx(folder / "nginx", gateway.url, port, pair):
            yield Front(gateway, f"https://127.0.0.1:{port}", authority.file, token)


def _user(admin: httpx.Client, name: str, *sources: str) -> str:
    """The token of a user who may send and read from there."""
    policy = {"resource": "Topic:*", "actions": ["Pub", "Sub", "Get"], "sources": sources, "decision": "allow"}
    for answer in (
        admin.put(f"/v1/users/{name}", json={}),
        admin.put(f"/v1/users/{name}/policies", json={"policies": [policy]}),
        made := admin.post(f"/v1/users/{name}/tokens", json={}),
    ):
        assert answer.is_success, answer.text
    return made.json()["token"]


def test_messages_go_through_it_both_ways(front: Front) -> None:
    with front.client() as http:
        stored = http.post(MESSAGES, json={"messages": [{"body": "a"}, {"body": "b"}]})
        assert stored.status_code == 200, stored.text
        offset = stored.json()["messages"][0]["queue_offset"]
        assert [each["body"] for each in http.get(POLL.format(offset)).json()["messages"]] == ["a", "b"]


def test_a_long_poll_waits_behind_it_and_is_answered_by_the_message(front: Front) -> None:
    with (
        front.client() as http,
        front.client() as sender,
        connect(front.gateway) as admin,
        ThreadPoolExecutor(1) as pool,
    ):
        end = sender.post(MESSAGES, content=b"before").json()["messages"][0]["queue_offset"] + 1
        poll = pool.submit(http.get, POLL.format(end))
        while waiting(admin) < 1:
            assert not poll.done()
        assert sender.post(MESSAGES, content=b"come").is_success
        assert [each["body"] for each in poll.result().json()["messages"]] == ["come"]


def test_a_body_goes_on_as_it_comes(front: Front) -> None:
    """What the broker refuses at the head is refused before the body is there."""
    address = httpx.URL(front.url)
    context = ssl.create_default_context(cafile=front.ca)
    with (
        socket.create_connection((address.host, address.port or 0), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        head = f"POST {MESSAGES} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1000000\r\n\r\nx"
        connection.sendall(head.encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 401 ")


def test_a_large_body_in_pieces_arrives_whole(front: Front) -> None:
    lines = b"".join(b'{"body":"%b"}\n' % (b"x" * 1000) for _ in range(4000))
    pieces = (lines[begin : begin + 100_000] for begin in range(0, len(lines), 100_000))
    with front.client() as http:
        answer = http.post(MESSAGES, content=pieces, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["messages"]) == 4000


def test_who_may_is_decided_by_the_client_and_not_by_the_proxy(front: Front) -> None:
    with front.client(INSIDE) as inside, front.client(OUTSIDE) as outside:
        assert inside.post(MESSAGES, content=b"m").is_success
        answer = outside.post(MESSAGES, content=b"m")
        assert is_problem(answer, 403, "forbidden")
        assert OUTSIDE in answer.json()["detail"] or "rita" in answer.json()["detail"]


def test_what_a_client_writes_of_itself_is_not_believed(front: Front) -> None:
    for said in (INSIDE, f"{INSIDE}, {INSIDE}", f"{INSIDE},", "unknown", f"{INSIDE}, 127.0.0.1"):
        with front.client(OUTSIDE, **{"X-Forwarded-For": said}) as outside:
            assert is_problem(outside.post(MESSAGES, content=b"m"), 403, "forbidden")
        with front.client(INSIDE, **{"X-Forwarded-For": OUTSIDE}) as inside:
            assert inside.post(MESSAGES, content=b"m").is_success


def test_nobody_but_the_proxy_is_believed(front: Front) -> None:
    """Who gets to the gateway's own port from elsewhere has a header as any other."""
    with front.client(OUTSIDE, front.gateway.url, **{"X-Forwarded-For": INSIDE}) as outside:
        assert is_problem(outside.post(MESSAGES, content=b"m"), 403, "forbidden")
    with front.client("127.0.0.1", front.gateway.url, **{"X-Forwarded-For": INSIDE}) as proxy:
        assert proxy.post(MESSAGES, content=b"m").is_success


def test_on_one_connection_each_request_is_its_own_clients(front: Front) -> None:
    """A proxy keeps its connections: a head that comes again is whose it was, another one isn't."""
    auth = f"Authorization: Bearer {front.token}"
    with Connection(front.gateway) as proxy:
        for client, status in ((INSIDE, 200), (INSIDE, 200), (OUTSIDE, 403), (INSIDE, 200), (OUTSIDE, 403)):
            head = f"POST {MESSAGES} HTTP/1.1\r\nHost: {NAME}\r\n{auth}\r\nX-Forwarded-For: {client}\r\n"
            proxy.send(f"{head}Content-Length: 1\r\n\r\nm".encode())
            answer = proxy.answer()
            assert answer is not None
            assert answer.status == status, answer
        repeated = f"X-Forwarded-For: {INSIDE}\r\nX-Forwarded-For: {OUTSIDE}\r\n"
        proxy.send(f"GET {POLL.format(0)} HTTP/1.1\r\nHost: {NAME}\r\n{auth}\r\n{repeated}\r\n".encode())
        answer = proxy.answer()
        assert answer is not None
        assert answer.status == 403


def test_it_is_asked_by_the_names_it_has_and_by_no_others(front: Front) -> None:
    with front.client() as http:
        assert http.get("/healthz", headers={"Host": NAME}).is_success
        assert http.get("/healthz", headers={"Host": NAME, "Origin": f"https://{NAME}"}).is_success
        assert is_problem(http.get("/healthz", headers={"Host": "elsewhere.example"}), 421, "wrong_host")
        from_elsewhere = {"Host": NAME, "Origin": "https://elsewhere.example"}
        assert is_problem(http.get("/healthz", headers=from_elsewhere), 403, "wrong_origin")


def test_the_python_client_sends_through_it(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_TLS__CA_FILE", str(front.ca))
    with connect(front.gateway) as admin:
        token = _user(admin, "anybody")
    monkeypatch.setenv("LAKEMQ_TOKEN", token)
    with Producer(front.url) as producer:
        assert producer.send("orders", b"m").queue_offset >= 0
