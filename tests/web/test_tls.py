"""A server that speaks TLS: what it takes, what it refuses, and that all bounds of a connection hold."""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import httpx
import pytest

from lakemq.model.errors import SettingsError
from lakemq.settings import Tls as Files
from lakemq.storage.disk.clock import SystemClock
from lakemq.testing import GatewayProcess, start_gateway, start_nameserver
from lakemq.web.certificate import text_of, validity_of
from lakemq.web.tls import AGAIN_LOOKS, Tls
from tests.certificates import Authority, Pair, openssl
from tests.gateway.http_client import check_problem, pull, put_topic
from tests.metrics.page import Page
from tests.open_files import no_descriptors

WAIT_S = 60
DAY_S = 86_400
ECHO = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
T = TypeVar("T")


class Secured(NamedTuple):
    """A gateway by TLS, and whose certificate it has."""

    gateway: GatewayProcess
    authority: Authority
    pair: Pair

    @property
    def port(self) -> int:
        return int(self.gateway.url.rpartition(":")[2])

    def client(self) -> httpx.Client:
        """One that trusts it."""
        return httpx.Client(base_url=self.gateway.url, timeout=WAIT_S, trust_env=False, verify=trusting(self.authority))

    def plain_socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def socket(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        context = trusting(self.authority) if context is None else context
        return context.wrap_socket(self.plain_socket(), server_hostname="localhost")


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.file))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.pair("server")


def start(folder: Path, authority: Authority, pair: Pair, **options: object) -> Secured:
    return Secured(start_gateway(folder, tls__cert_file=pair.cert, tls__key_file=pair.key, **options), authority, pair)


@pytest.fixture(scope="module")
def secured(authority: Authority, pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = start(tmp_path_factory.mktemp("secured"), authority, pair)
    with made.gateway:
        yield made


@pytest.fixture(scope="module")
def small(authority: Authority, pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One with small limits."""
    limits = {"head_ms_max": 500, "idle_ms_max": 60_000, "stall_ms_max": 1_000, "connections_per_client_max": 8}
    options = {f"gateway__{name}": value for name, value in limits.items()}
    made = start(tmp_path_factory.mktemp("small"), authority, pair, **options)
    with made.gateway:
        yield made


def wait_for(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def read_all(connection: socket.socket) -> bytes:
    """Until it is closed, however that is done."""
    found = b""
    with suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65536):
            found += piece
    return found


def test_every_way_of_a_request_goes_by_tls(secured: Secured) -> None:
    with secured.client() as http:
        put_topic(http, "ways")
        raw = http.post("/v1/topics/ways/messages", content=b"raw", headers={"Content-Type": "text/plain"})
        assert raw.status_code == 200
        same = [http.post("/v1/topics/ways/messages", content=b"raw%d" % n) for n in range(3)]
        assert [each.status_code for each in same] == [200] * 3, "a head that comes again"
        assert http.post("/v1/topics/ways/messages", json={"messages": [{"body": "json"}]}).status_code == 200
        assert http.get("/v1/groups").status_code == 200, "one of FastAPI's"
        assert [each["body"] for each in pull(http, "ways")["messages"]] == ["raw", "raw0", "raw1", "raw2", "json"]

        def produce_late() -> None:
            time.sleep(0.2)
            with secured.client() as other:
                other.post("/v1/topics/ways/messages", content=b"late")

        late = threading.Thread(target=produce_late)
        late.start()
        assert [each["body"] for each in pull(http, "ways", offset=5, wait_ms=30_000)["messages"]] == ["late"]
        late.join()
        assert http.get("/nowhere").status_code == 404


def test_requests_that_are_sent_ahead_are_answered_in_their_order(secured: Secured) -> None:
    with secured.socket() as connection:
        connection.sendall(ECHO * 200)
        connection.sendall(ECHO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 201


def test_large_bodies_come_and_go_whole(secured: Secured) -> None:
    body = os.urandom(3_900_000)
    with secured.client() as http:
        put_topic(http, "large")
        for _ in range(3):
            assert http.post("/v1/topics/large/messages", content=body).status_code == 200
        answer = http.get("/v1/topics/large/queues/0/messages?offset=0", headers={"Accept": "application/x-ndjson"})
        assert answer.status_code == 200
        assert len(answer.content) > 3 * len(body)
        too_large = http.post("/v1/topics/large/messages", content=bytes(5 * 1024 * 1024))
        assert (too_large.status_code, too_large.json()["code"]) == (413, "message_too_large")


def test_a_record_of_one_byte_each_is_read_as_a_whole(secured: Secured) -> None:
    """A piece of the socket's has thousands of such records: they are read by turns."""
    with secured.plain_socket() as connection:
        tls, incoming, outgoing = shake_hands(connection, secured)
        for byte in ECHO * 50 + ECHO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"):
            tls.write(bytes([byte]))
        connection.sendall(outgoing.read())
        while piece := connection.recv(65536):
            incoming.write(piece)
    found = b""
    with suppress(ssl.SSLError):
        while piece := tls.read(65536):
            found += piece
    assert found.count(b"HTTP/1.1 200 OK") == 51


def shake_hands(connection: socket.socket, secured: Secured) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """TLS over a socket, of which what is sent can be seen before: with what comes in, and what goes out."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(secured.authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(65536))
        else:
            connection.sendall(outgoing.read())
            return tls, incoming, outgoing


@pytest.mark.parametrize("whole", [True, False])
def test_a_record_that_was_changed_on_the_way_ends_the_connection(secured: Secured, whole: bool) -> None:
    with secured.plain_socket() as connection:
        tls, _, outgoing = shake_hands(connection, secured)
        tls.write(ECHO)
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        if not whole:
            connection.sendall(record[:10])
            time.sleep(0.1)
            del record[:10]
        with suppress(ConnectionError):
            connection.sendall(record)
        assert len(read_all(connection)) < 1000, "tickets and an alert, and nothing else"


def test_a_record_that_comes_in_pieces_is_read(secured: Secured) -> None:
    with secured.plain_socket() as connection:
        tls, incoming, outgoing = shake_hands(connection, secured)
        tls.write(ECHO)
        for byte in outgoing.read():
            connection.sendall(bytes([byte]))
        found = b""
        while not found:
            incoming.write(connection.recv(65536))
            with suppress(ssl.SSLWantReadError):
                found = tls.read(65536)
    assert found.startswith(b"HTTP/1.1 200 OK")


def test_who_asks_without_tls_is_told_so(secured: Secured) -> None:
    with httpx.Client(timeout=WAIT_S, trust_env=False) as http:
        answer = http.get(f"http://127.0.0.1:{secured.port}/healthz")
    check_problem(answer.status_code, answer.headers, answer.content)
    assert answer.status_code == 400
    assert "https://" in answer.json()["detail"]


@pytest.mark.parametrize(
    "junk",
    [b"\x16\x03\x01\x00\x05hello", bytes(100), random.Random(7).randbytes(300_000)],
    ids=["no hello", "nothing", "noise"],
)
def test_what_is_no_handshake_is_closed(secured: Secured, junk: bytes) -> None:
    with secured.client() as http:
        before = metric(http, "lakemq_tls_handshakes_failed_total")
        with secured.plain_socket() as connection:
            with suppress(ConnectionError):
                connection.sendall(junk)
            assert b"HTTP/1.1 200" not in read_all(connection)
        assert http.get("/healthz").status_code == 200
        assert metric(http, "lakemq_tls_handshakes_failed_total") == before + 1


def test_older_versions_are_refused(secured: Secured) -> None:
    context = trusting(secured.authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.socket(context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_today_are_spoken(secured: Secured, version: ssl.TLSVersion) -> None:
    context = trusting(secured.authority)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with secured.socket(context) as connection:
        connection.sendall(ECHO)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert connection.selected_alpn_protocol() == "http/1.1"
        assert connection.compression() is None


def test_who_says_that_it_sends_no_more_is_answered_what_went_before(secured: Secured) -> None:
    with secured.socket() as connection:
        connection.sendall(ECHO)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        connection.setblocking(False)
        with suppress(ssl.SSLWantReadError, OSError):
            connection.unwrap()
        connection.settimeout(WAIT_S)
        assert read_all(connection) == b""


def test_who_goes_in_the_middle_leaves_nothing_behind(secured: Secured) -> None:
    with secured.client() as http:
        assert http.get("/healthz").status_code == 200
        before = open_sockets(secured)
        for sent in (b"", b"\x16\x03", ECHO[:20]):
            with secured.plain_socket() as plain:
                plain.sendall(sent)
        for _ in range(3):
            with secured.socket() as connection:
                connection.sendall(
                    b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
                )
                os.close(connection.detach())
        wait_for(lambda: open_sockets(secured) <= before)


def open_sockets(secured: Secured) -> int:
    found = 0
    for each in Path(f"/proc/{secured.gateway.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(each.readlink()).startswith("socket:")
    return found


def metric(http: httpx.Client, name: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].split(" ")[0] == name)


def ask_small(small: Secured, ask: Callable[[httpx.Client], T]) -> T:
    """What is answered once it was asked in time: on a busy machine that takes longer than small limits allow."""
    end_s = time.monotonic() + WAIT_S
    while True:
        try:
            with small.client() as http:
                return ask(http)
        except httpx.TransportError:
            assert time.monotonic() < end_s


def cut(small: Secured) -> float:
    """How many connections were cut."""
    return ask_small(small, lambda http: metric(http, "lakemq_connections_cut_total"))


def test_a_handshake_that_does_not_come_is_cut_as_a_head_is(small: Secured) -> None:
    with ExitStack() as opened:
        silent = [opened.enter_context(small.plain_socket()) for _ in range(3)]
        silent[1].sendall(b"\x16\x03\x01\x02\x00")
        assert [read_all(each) for each in silent] == [b""] * 3
    assert cut(small) >= 3


def test_who_is_silent_counts_as_a_connection(small: Secured) -> None:
    def is_refused() -> bool:
        """Unless this machine is so slow that the silent ones were cut before."""
        with ExitStack() as opened:
            for _ in range(8):
                opened.enter_context(small.plain_socket())
            with small.plain_socket() as refused:
                assert read_all(refused) == b"", "at once, before anything was sent"
        wait_for(lambda: answers(small, trusting(small.authority)))
        return 'code="busy"' in ask_small(small, lambda http: http.get("/metrics").text)

    wait_for(is_refused)


def test_who_does_not_take_his_answer_is_cut(small: Secured) -> None:
    def is_stored(content: bytes) -> bool:
        return ask_small(small, lambda http: http.post("/v1/topics/untaken/messages", content=content).is_success)

    def is_cut() -> bool:
        before = cut(small)
        with suppress(ssl.SSLError, ConnectionError), small.socket() as slow:
            slow.sendall(b"GET /v1/topics/untaken/queues/0/messages?offset=0&max=4 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: cut(small) > before)
            return len(read_all(slow)) < 3 * 3_900_000
        return False

    assert ask_small(small, lambda http: http.put("/v1/topics/untaken", json={"queues": 1}).is_success)
    for _ in range(4):
        wait_for(lambda: is_stored(bytes(3_900_000)))
    wait_for(is_cut)


def test_others_are_answered_while_many_shake_hands(secured: Secured) -> None:
    """A hundred at once: none takes all, and each is done."""
    done: list[bytes] = []

    def ask() -> None:
        with secured.socket() as connection:
            connection.sendall(ECHO)
            done.append(connection.recv(12))

    with secured.client() as http:
        assert http.get("/healthz").status_code == 200
        askers = [threading.Thread(target=ask) for _ in range(100)]
        for each in askers:
            each.start()
        assert all(http.get("/healthz").status_code == 200 for _ in range(50))
        for each in askers:
            each.join()
    assert done == [b"HTTP/1.1 200"] * 100


def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    theirs, stranger = Authority(tmp_path / "theirs", "theirs"), Authority(tmp_path / "strangers", "strangers")
    mutual = start(tmp_path / "data", authority, pair, tls__client_ca_file=theirs.file)
    with mutual.gateway:
        known = trusting(authority, theirs.pair("known"))
        with mutual.socket(known) as connection:
            connection.sendall(ECHO)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        for context in (trusting(authority), trusting(authority, stranger.pair("unknown"))):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context.maximum_version = version
                assert not answers(mutual, context)
        with mutual.socket(known) as connection:
            connection.sendall(ECHO)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


def answers(secured: Secured, context: ssl.SSLContext) -> bool:
    """Whether anything is answered: with TLS 1.3 a refusal comes after the client's own end of the handshake."""
    try:
        with secured.socket(context) as connection:
            connection.sendall(ECHO)
            return bool(connection.recv(65536))
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_new_certificate_is_taken_under_load_and_open_connections_stay(authority: Authority, tmp_path: Path) -> None:
    first, second = authority.pair("first"), authority.pair("second")
    pair = Pair(tmp_path / "cert.pem", tmp_path / "key.pem")
    put(pair, first)
    made = start(tmp_path / "data", authority, pair)
    stop, failures = threading.Event(), []

    def load() -> None:
        with made.client() as http:
            while not stop.is_set():
                try:
                    assert http.post("/v1/topics/loaded/messages", content=b"x").status_code == 200
                except Exception as error:  # noqa: BLE001  it is asserted that there is none
                    failures.append(error)
                    return

    with made.gateway, made.socket() as open_before:
        loaders = [threading.Thread(target=load) for _ in range(4)]
        for each in loaders:
            each.start()
        assert common_name(made) == "first"
        pair.key.write_bytes(second.key.read_bytes())
        wait_for(lambda: "the key of another certificate" in "".join(made.gateway.log))
        assert common_name(made) == "first", "a pair that doesn't fit is not taken"
        put(pair, second)
        wait_for(lambda: common_name(made) == "second")
        open_before.sendall(ECHO)
        assert open_before.recv(65536).startswith(b"HTTP/1.1 200 OK")
        stop.set()
        for each in loaders:
            each.join()
    assert failures == []


def test_files_are_taken_once_they_stay_the_same_and_what_is_missing_changes_nothing(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    own, theirs = Pair(tmp_path / "cert.pem", tmp_path / "key.pem"), tmp_path / "theirs.pem"
    put(own, pair)
    theirs.write_bytes(authority.file.read_bytes())
    tls = Tls(Files(cert_file=str(own.cert), key_file=str(own.key), client_ca_file=str(theirs)))
    first = tls.context
    tls.look()
    assert tls.context is first
    theirs.unlink()
    tls.look()
    tls.look()
    assert tls.context is first, "who was asked for a certificate still is"
    theirs.write_bytes(Authority(tmp_path, "others").file.read_bytes())
    tls.look()
    assert tls.context is first, "it may not be all yet"
    tls.look()
    assert tls.context is not first
    assert tls.context.verify_mode is ssl.CERT_REQUIRED


def test_what_was_refused_is_taken_when_its_mode_is_mended_or_it_can_be_read_again(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    own, new = Pair(tmp_path / "cert.pem", tmp_path / "key.pem"), authority.pair("new")
    put(own, pair)
    tls = Tls(Files(cert_file=str(own.cert), key_file=str(own.key)))
    first = tls.context
    put(own, new)
    own.key.chmod(0o644)
    for _ in range(3):
        tls.look()
    assert tls.context is first
    own.key.chmod(0o600)
    for _ in range(2):
        tls.look()
    second = tls.context
    assert second is not first

    put(own, pair)
    with no_descriptors():  # as when all descriptors are taken: the files are as good as before
        for _ in range(3):
            tls.look()
    assert tls.context is second
    for _ in range(AGAIN_LOOKS):
        tls.look()
    assert tls.context is not second


def test_a_certificate_that_has_run_out_takes_no_place_of_one_that_is_valid(
    authority: Authority, pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No client would have come in any more."""
    own, old = Pair(tmp_path / "cert.pem", tmp_path / "key.pem"), authority.pair("old", days=-1)
    put(own, pair)
    files = Files(cert_file=str(own.cert), key_file=str(own.key))
    tls = Tls(files)
    first = tls.context
    assert not caplog.messages
    put(own, old)
    for _ in range(3):
        tls.look()
    assert tls.context is first
    assert f"TLS keeps its previous certificate: tls.cert_file: {own.cert} can't be used: it has expired" in caplog.text

    tls = Tls(files)  # it has no other, and whoever must get in may look away
    first = tls.context
    assert f"no client will trust tls.cert_file {own.cert}: it has expired" in caplog.text
    put(own, authority.pair("older", days=-1))
    for _ in range(2):
        tls.look()
    second = tls.context
    assert second is not first, "it had none that is valid"
    put(own, pair)
    for _ in range(2):
        tls.look()
    assert tls.context is not second


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("asks_for_theirs", [False, True])
def test_whether_a_certificate_is_valid_is_told_by_what_it_speaks(
    authority: Authority, version: ssl.TLSVersion, asks_for_theirs: bool
) -> None:
    theirs = str(authority.file) if asks_for_theirs else ""
    faults = list[str]()
    ends_s = list[float | None]()
    for each in (authority.pair("new"), authority.pair("old", days=-1)):
        each.cert.write_bytes("# für uns\n".encode("latin-1") + each.cert.read_bytes())
        context = Tls(Files(cert_file=str(each.cert), key_file=str(each.key), client_ca_file=theirs)).context
        context.minimum_version = context.maximum_version = version
        fault, end_s = validity_of(context, text_of(str(each.cert)))
        faults.append(fault)
        ends_s.append(end_s)
    assert faults == ["", "it has expired"]
    if not asks_for_theirs or version is ssl.TLSVersion.TLSv1_3:  # else it shows itself to nobody without one
        new_s, old_s = (each or 0.0 for each in ends_s)
        assert old_s < now_s() < new_s


def now_s() -> float:
    return SystemClock().now_ms() / 1000


def put(pair: Pair, source: Pair) -> None:
    pair.key.write_bytes(source.key.read_bytes())
    pair.key.chmod(0o600)
    pair.cert.write_bytes(source.cert.read_bytes())


def common_name(secured: Secured) -> str:
    with secured.socket() as connection:
        found = connection.getpeercert()
    assert found is not None
    return next(str(value) for ((name, value),) in cast("Any", found)["subject"] if name == "commonName")


def test_files_that_can_not_be_used_are_named_by_their_setting(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    other, text, missing = authority.pair("other"), tmp_path / "text.pem", tmp_path / "missing.pem"
    text.write_text("no PEM")
    open_key = tmp_path / "open.key"
    open_key.write_bytes(pair.key.read_bytes())
    open_key.chmod(0o644)
    refused = {
        "tls.cert_file: .*missing.pem": Files(cert_file=str(missing), key_file=str(pair.key)),
        "tls.cert_file: .*text.pem": Files(cert_file=str(text), key_file=str(pair.key)),
        "tls.key_file: .*missing.pem": Files(cert_file=str(pair.cert), key_file=str(missing)),
        "tls.key_file: .*key of another certificate": Files(cert_file=str(pair.cert), key_file=str(other.key)),
        "tls.key_file: .*others may read or write it .*0644": Files(cert_file=str(pair.cert), key_file=str(open_key)),
        "tls.client_ca_file: .*text.pem": Files(
            cert_file=str(pair.cert), key_file=str(pair.key), client_ca_file=str(text)
        ),
    }
    for said, files in refused.items():
        with pytest.raises(SettingsError, match=said):
            Tls(files)


def test_an_encrypted_key_is_refused_without_a_question(pair: Pair, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    openssl("ec", "-in", str(pair.key), "-aes256", "-passout", "pass:secret", "-out", str(locked))
    locked.chmod(0o600)
    with pytest.raises(SettingsError, match=r"tls.key_file: .*without a password"):
        Tls(Files(cert_file=str(pair.cert), key_file=str(locked)))


def test_a_server_does_not_start_without_what_its_settings_name(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"tls.key_file: .*missing.key can't be used: No such file"):
        start_gateway(tmp_path / "data", tls__cert_file=pair.cert, tls__key_file=tmp_path / "missing.key")
    assert not (tmp_path / "data").exists()


def test_gateway_and_name_server_say_when_their_certificate_expires_also_of_a_new_one(
    authority: Authority, tmp_path: Path
) -> None:
    own = Pair(tmp_path / "cert.pem", tmp_path / "key.pem")
    put(own, authority.pair("few-days", days=3))
    options = {"tls__cert_file": own.cert, "tls__key_file": own.key}
    gateway = start_gateway(tmp_path / "data", **options)
    name_server = start_nameserver(**options)
    with gateway, name_server, ExitStack() as stack:
        asked: list[Callable[[], float]] = []
        for url, name in ((gateway.url, "lakemq_"), (name_server.url, "lakemq_nameserver_")):
            http = stack.enter_context(
                httpx.Client(base_url=url, trust_env=False, verify=trusting(authority), timeout=60)
            )
            metric = f"{name}certificate_expiry_timestamp_seconds"
            asked.append(lambda http=http, metric=metric: Page(http)(metric) - now_s())
        assert all(2 * DAY_S < ask() < 3 * DAY_S + 60 for ask in asked)
        put(own, authority.pair("many-days", days=30))
        wait_for(lambda: all(29 * DAY_S < ask() < 30 * DAY_S + 60 for ask in asked))
