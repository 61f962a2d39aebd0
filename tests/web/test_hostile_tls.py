"""What a client can do to a server that speaks TLS, but for asking: what it costs is bounded by counts."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Callable, Iterator

import httpx
import pytest

from lakemq.web.counters import WebCounters
from lakemq.web.handshakes import TURN_S, Handshakes
from lakemq.web.records import record_bytes
from lakemq.web.secured import SILENT_BYTES, SILENT_MAX
from lakemq.web.secured import Secured as Layer
from tests.certificates import Authority
from tests.web.libssl import Hostile
from tests.web.test_hello import hello, records
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


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_no_exchange_is_made_over_a_finite_field(secured: Secured, version: str) -> None:
    curve = shake_hands_by_openssl(secured, version, "-groups", "P-256:ffdhe8192")
    assert "ECDH, prime256v1" in curve
    for groups in ("ffdhe8192", "ffdhe8192:P-256", "ffdhe2048:X25519"):
        assert "Server Temp Key: DH" not in shake_hands_by_openssl(secured, version, "-groups", groups)
    for ciphers in ("DHE:@SECLEVEL=0", "kRSA:@SECLEVEL=0"):
        assert "Cipher is (NONE)" in shake_hands_by_openssl(secured, "-tls1_2", "-cipher", ciphers)


def shake_hands_by_openssl(secured: Secured, *options: str) -> str:
    address = f"127.0.0.1:{secured.port}"
    command = ["openssl", "s_client", "-connect", address, *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout


def test_a_hello_that_claims_to_be_large_is_refused_before_it_comes(secured: Secured, http: httpx.Client) -> None:
    before = metric(http, "lakemq_tls_handshakes_failed_total")
    with secured.plain_socket() as connection:
        connection.sendall(b"\x16\3\1\0\x0a\1\2\1\x30\3\3aaaa")
        assert read_all(connection) == b"\x15\3\3\0\2\2\x28", "handshake_failure"
    assert metric(http, "lakemq_tls_handshakes_failed_total") == before + 1


def test_openssl_knows_nothing_of_a_hello_that_is_not_whole() -> None:
    """So an unfinished one holds what was sent of it, and nothing that it says of itself."""

    async def go() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        handshakes = Handshakes(WebCounters(), lambda: 0.0)
        made: list[Layer] = []

        def make() -> Layer:
            made.append(Layer(asyncio.Protocol(), context, handshakes))
            return made[-1]

        loop = asyncio.get_running_loop()
        server = await loop.create_server(make, "127.0.0.1")
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        record = records(hello([23], [23]))
        for byte in record[:-1]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.001)
        await until(lambda: bool(made))
        assert made[0].get_extra_info("ssl_object") is None
        assert not made[0].is_closing()
        writer.write(record[-1:])
        await until(lambda: made[0].get_extra_info("ssl_object") is not None)
        writer.close()
        server.close()

    asyncio.run(go())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  what is waited for knows of no event
        await asyncio.sleep(0.01)


class Greeted:
    """Its handshake takes so long."""

    def __init__(self, shake: Callable[[Greeted], None]) -> None:
        self.shake = lambda: shake(self)


def test_handshakes_have_their_turns_and_others_have_theirs_between() -> None:
    now, done, done_by_turn = 0.0, list[Greeted](), list[int]()

    def shake(greeted: Greeted) -> None:
        nonlocal now
        now += TURN_S / 2
        done.append(greeted)

    async def go() -> list[Greeted]:
        handshakes = Handshakes(WebCounters(), lambda: now)
        waiting = [Greeted(shake) for _ in range(9)]
        for each in waiting:
            handshakes.add(each)
        assert done == [], "none is made when it comes"
        handshakes.remove(waiting.pop())
        while len(done) < len(waiting):
            await asyncio.sleep(0)
            done_by_turn.append(len(done))
        return waiting

    assert asyncio.run(go()) == done, "who came first goes first"
    assert done_by_turn == [2, 4, 6, 8]
