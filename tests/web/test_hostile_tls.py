"""What a client can do to a server that speaks TLS, but for asking: what it costs is bounded by counts."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from lakemq.web.records import record_bytes
from lakemq.web.secured import SILENT_BYTES, SILENT_MAX
from tests.certificates import Authority
from tests.web.libssl import Hostile
from tests.web.test_tls import ECHO, Secured, metric, read_all, start

UPDATE_BYTES = 27


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    made = start(tmp_path_factory.mktemp("secured"), authority, authority.pair("server"))
    with made.gateway:
        yield made


@pytest.fixture
def http(secured: Secured) -> Iterator[httpx.Client]:
    with secured.client() as made:
        yield made


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_who_changes_keys_on_and_on_is_cut_after_a_few(
    secured: Secured, http: httpx.Client, asked: bool, at_once: bool
) -> None:
    before = metric(http, "lakemq_connections_cut_total")
    with Hostile(secured.port) as client:
        client.socket.sendall(client.record(ECHO))
        assert client.read().startswith(b"HTTP/1.1 200")
        flood = client.key_updates(20_000, asked)
        size = len(flood) if at_once else 22
        try:
            for begin in range(0, len(flood), size):
                client.socket.sendall(flood[begin : begin + size])
        except ConnectionError:
            pass
        assert len(read_all(client.socket)) <= (SILENT_MAX + 1) * UPDATE_BYTES, "nor is each of them answered"
    assert metric(http, "lakemq_connections_cut_total") == before + 1


def test_who_changes_keys_now_and_then_is_served(secured: Secured) -> None:
    with Hostile(secured.port) as client:
        for _ in range(SILENT_MAX):
            client.socket.sendall(client.key_updates(1, True) + client.record(ECHO))
            assert client.read().startswith(b"HTTP/1.1 200")
        body = bytes(SILENT_BYTES)
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        for _ in range(3):
            client.socket.sendall(b"".join(client.record(piece) for piece in (head, body)))
            assert client.read().startswith(b"HTTP/1.1 200")
            client.socket.sendall(client.key_updates(1, True) + client.record(ECHO))
            assert client.read().startswith(b"HTTP/1.1 200")


def test_records_end_where_their_heads_say() -> None:
    record = b"\x17\x03\x03\x00\x05hello"
    assert [record_bytes(record[:size]) for size in range(len(record))] == [0] * len(record)
    assert record_bytes(record) == record_bytes(record * 3) == len(record)
    assert record_bytes(b"\x17\x03\x03\x48\x01" + bytes(5)) == 10, "longer than any: OpenSSL refuses it by its head"
    assert record_bytes(b"GET / HTTP/1.1\r\n") == 16
    assert record_bytes(bytes(100_000)) == 5 + 16 * 1024 + 2048
