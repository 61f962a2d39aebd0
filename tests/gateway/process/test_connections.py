from __future__ import annotations

import contextlib
import json
import select
import socket
from pathlib import Path

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from lakemq.web.bounds import HEAD_BYTES_MAX
from tests.gateway.http_client import (
    JSON,
    WAIT_S,
    Connection,
    check_problem,
    connect,
    is_problem,
    pull,
    pull_all,
    put_topic,
    waiting,
)
from tests.gateway.routing.asking import wait_until


def post(topic: str, body: bytes, *headers: bytes) -> bytes:
    head = b"POST /v1/topics/%s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % (
        topic.encode(),
        len(body),
    )
    return head + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


def chunked(topic: str, *chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = (
        b"POST /v1/topics/%s/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        % topic.encode()
    )
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def bodies(http: httpx.Client, topic: str) -> list[str]:
    return [message["body"] for message in pull_all(http, topic)]


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"no http at all\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /ü HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: a\x00b\r\n\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdefg\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_http_is_a_400_that_closes_the_connection(gateway: GatewayProcess, bytes_sent: bytes) -> None:
    with Connection(gateway) as connection:
        connection.send(bytes_sent)
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 400
        check_problem(400, answer.headers, answer.body)
        assert connection.answer() is None


def test_a_broken_chunked_body_stores_nothing(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with Connection(gateway) as connection:
        connection.send(chunked(topic, b"hello", end=b"not a number\r\n"))
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 400
    assert bodies(http, topic) == []


def test_what_reads_no_body_is_not_done_when_that_is_broken(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """It was answered 400, and the topic was gone."""
    put_topic(http, topic)
    head = b"DELETE /v1/topics/%b HTTP/1.1\r\nHost: localhost\r\n" % topic.encode()
    token = b"Authorization: Bearer " + administrators_token(gateway) + b"\r\n"
    for framing in (b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n"):
        with Connection(gateway) as connection:
            connection.send(head + token + framing)
            assert getattr(connection.answer(), "status", None) == 400
            assert connection.answer() is None
        assert http.get(f"/v1/topics/{topic}").status_code == 200
    for framing in (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"Content-Length: 2\r\n\r\n{}"):
        put_topic(http, topic)
        with Connection(gateway) as connection:
            connection.send(head + token + framing)
            assert getattr(connection.answer(), "status", None) in (200, 204)
        assert http.get(f"/v1/topics/{topic}").status_code == 404


def test_a_body_that_ends_early_stores_nothing(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with Connection(gateway) as connection:
        connection.send(post(topic, b"hello")[:-1])
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.answer() is None
    with Connection(gateway) as connection:
        connection.send(chunked(topic, b"hello", end=b""))
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.answer() is None
    assert bodies(http, topic) == []


def test_chunks_make_one_body(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    with Connection(gateway) as connection:
        connection.send(chunked(topic, b"hel", b"lo", b"!" * 200_000))
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200
    assert bodies(http, topic) == ["hello" + "!" * 200_000]


def administrators_token(gateway: GatewayProcess) -> bytes:
    refused = httpx.get(gateway.url + "/v1/users", trust_env=False, timeout=WAIT_S)
    return Path(refused.json()["token_file"]).read_bytes().strip()


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_what_comes_behind_a_body_is_no_header(
    gateway: GatewayProcess, http: httpx.Client, topic: str, in_one_piece: bool
) -> None:
    """Trailers were headers of the request when they came in one piece with it: a token too, which a proxy in front
    had not seen."""
    token = b"Authorization: Bearer " + administrators_token(gateway)
    trailers = b"Lakemq-Tag: late\r\nExpect: 100-continue\r\n" + token
    users = b"GET /v1/users HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    requests = chunked(topic, b"hello", end=b"0\r\n"), users + b"0\r\n"
    with Connection(gateway) as connection:
        for request, status in zip(requests, (200, 401), strict=True):
            if in_one_piece:
                connection.send(request + trailers + b"\r\n\r\n")
            else:
                connection.send(request)
                connection.send(trailers + b"\r\n\r\n")
            assert getattr(connection.answer(), "status", None) == status
    (stored,) = pull_all(http, topic)
    assert (stored["body"], stored.get("tag")) == ("hello", None)


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_a_connection_that_a_trailer_closes_is_said_to_be_closed(
    gateway: GatewayProcess, topic: str, in_one_piece: bool
) -> None:
    """The parser takes nothing more then: the next request was answered that it is none."""
    request = chunked(topic, b"hello", b"!" * 5_000, end=b"0\r\nConnection: close\r\n\r\n")
    with Connection(gateway) as connection:
        if in_one_piece:
            connection.send(request)
        else:
            head, end, body = request.partition(b"\r\n\r\n")
            connection.send(head + b"\r\nExpect: 100-continue" + end)
            assert getattr(connection.answer(), "status", None) == 100
            connection.send(body)
        answer = connection.answer()
        assert answer is not None
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert connection.answer() is None


def test_a_body_that_comes_byte_by_byte_is_stored(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    with Connection(gateway) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(topic, b"hello"):
            connection.send(bytes([byte]))
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200
    assert bodies(http, topic) == ["hello"]


def test_pipelined_requests_are_answered_in_order(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with Connection(gateway) as connection:
        connection.send(b"".join(post(topic, b"%d" % number) for number in range(50)))
        answers = [connection.answer() for _ in range(50)]
    assert [answer and answer.status for answer in answers] == [200] * 50
    assert bodies(http, topic) == [str(number) for number in range(50)]


def test_rubbish_after_a_request_does_not_take_its_answer(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    with Connection(gateway) as connection:
        connection.send(post(topic, b"hello") + b"\x00\x01rubbish\r\n\r\n")
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200
    assert bodies(http, topic) == ["hello"]


def test_a_request_that_asks_for_http_2_is_served_with_its_body(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """The parser took such a request for the last one of its connection, and passed over its body."""
    put_topic(http, topic)
    upgrade = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    with Connection(gateway) as connection:
        connection.send(post(topic, b"one", *upgrade) + post(topic, b"two", *upgrade) + post(topic, b"three"))
        answers = [connection.answer() for _ in range(3)]
        connection.send(post(topic, b"four", *upgrade))
        answers.append(connection.answer())
    assert [answer and answer.status for answer in answers] == [200] * 4
    assert bodies(http, topic) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("framing", ["length", "chunks", "none"])
@pytest.mark.parametrize("host", [b"localhost", b"evil.example"])
def test_the_body_of_a_connect_is_no_request(
    gateway: GatewayProcess, http: httpx.Client, topic: str, framing: str, host: bytes
) -> None:
    """The parser has no body of a CONNECT; a proxy in front may have one, and it was served as the next request."""
    put_topic(http, topic)
    body = post(topic, b"smuggled")
    said = {
        "length": (b"Content-Length: %d\r\n" % len(body), body),
        "chunks": (b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
        "none": (b"", body),
    }
    header, sent = said[framing]
    with Connection(gateway) as connection:
        connection.send(post(topic, b"before"))
        assert getattr(connection.answer(), "status", None) == 200
        with contextlib.suppress(ConnectionError):
            connection.send(b"CONNECT /x HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (host, header) + sent)
            connection.send(body)
        answer = connection.answer()
        assert answer is None or (answer.status, answer.headers["connection"]) == (405, "close")
        assert connection.answer() is None
    assert bodies(http, topic) == ["before"]


def test_the_client_that_expects_a_100_gets_it_before_it_sends(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    request = post(topic, b"hello", b"Expect: 100-continue")
    with Connection(gateway) as connection:
        connection.send(request[:-5])
        first = connection.answer()
        assert first is not None
        assert first.status == 100
        connection.send(b"hello")
        second = connection.answer()
        assert second is not None
        assert second.status == 200
    assert bodies(http, topic) == ["hello"]


def test_who_expects_a_100_is_refused_at_once_where_the_body_does_not_matter(gateway: GatewayProcess) -> None:
    with Connection(gateway) as connection:
        connection.send(post("t", b"hello", b"Expect: 100-continue").replace(b"messages", b"messages?ack=bogus")[:-5])
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 400


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 200_000 + b"\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;"
        + b"x" * 1_000_000,
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"x: y\r\n" * 200_000,
    ],
    ids=["url", "header", "headers", "chunk extension", "trailers"],
)
def test_a_head_without_end_is_cut_off(gateway: GatewayProcess, http: httpx.Client, head: bytes) -> None:
    with Connection(gateway) as connection:
        try:
            connection.send(head)
        except ConnectionError:
            pass  # it closed the connection while we were still sending
        else:
            answer = connection.answer()
            assert answer is None or answer.status == 400
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES_MAX, 200), (HEAD_BYTES_MAX + 1, 400), (200_000, 400)])
@pytest.mark.parametrize("piece", [1_000, 60_000, 1_000_000])
@pytest.mark.parametrize("body", [None, b"hello"])
def test_a_head_that_is_too_long_is_refused_however_it_comes(
    gateway: GatewayProcess, http: httpx.Client, topic: str, size: int, status: int, piece: int, body: bytes | None
) -> None:
    """One whose end came in the same piece as its beginning was taken, whatever its size."""
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" if body is None else post(topic, b"")
    head = head.replace(b"Content-Length: 0", b"Content-Length: 5")
    head = head[:-2] + b"x: " + b"a" * (size - len(head) - 5) + b"\r\n\r\n"
    assert len(head) == size
    with Connection(gateway) as connection, contextlib.suppress(ConnectionError):
        sent = head + (body or b"")
        for at in range(0, len(sent), piece):
            connection.send(sent[at : at + piece])
        answer = connection.answer()
        assert answer is not None
        assert answer.status == status
    if status == 400:
        assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")


def test_no_more_connections_than_the_setting_says(tmp_path: Path) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with start_gateway(tmp_path, gateway__connections_max=3) as gateway, connect(gateway) as http:
        assert http.get("/healthz").status_code == 200
        with Connection(gateway) as one, Connection(gateway) as two:
            for connection in (one, two):
                connection.send(health)
                assert getattr(connection.answer(), "status", None) == 200
            with Connection(gateway) as three:
                three.send(health)
                answer = three.answer()
            assert answer is not None
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            check_problem(503, answer.headers, answer.body)
            one.send(health)
            assert getattr(one.answer(), "status", None) == 200
        assert http.get("/healthz").status_code == 200


def test_connections_that_are_refused_take_nobodys_room(tmp_path: Path) -> None:
    """They counted as those that are served, and were kept as long: one client, whose share was taken, kept out all."""
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    settings = {"gateway__connections_max": 12, "gateway__connections_per_client_max": 6}
    with start_gateway(tmp_path, **settings) as gateway, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Connection(gateway, "127.0.0.2")) for _ in range(40)]
        with Connection(gateway, "127.0.0.3") as other:
            other.send(health)
            assert getattr(other.answer(), "status", None) == 200
        closed: set[int] = set()
        while len(closed) < 34:  # soon, though they have asked nothing
            readable, _, _ = select.select([each.socket for each in silent if id(each) not in closed], [], [], WAIT_S)
            assert readable
            closed |= {id(each) for each in silent if each.socket in readable and each.answer() is None}
        for each in silent:
            if id(each) not in closed:
                each.send(health)
                assert getattr(each.answer(), "status", None) == 200
        with Connection(gateway, "127.0.0.2") as refused:
            refused.send(health)
            answer = refused.answer()
            assert answer is not None
            assert (answer.status, answer.headers["connection"]) == (503, "close")
        with Connection(gateway, "127.0.0.3") as other:
            other.send(health)
            assert getattr(other.answer(), "status", None) == 200


def test_bodies_that_are_being_read_count_against_the_bound_of_all(tmp_path: Path) -> None:
    options = {"message_bytes_max": 100_000, "request_bytes_max": 1_000_000, "request_bytes_in_flight_max": 1_000_000}
    with start_gateway(tmp_path, **{f"gateway__{name}": value for name, value in options.items()}) as gateway:
        with Connection(gateway) as slow, Connection(gateway) as late:
            for connection in (slow, late):
                request = post("t", b"x" * 900_000, b"Content-Type: application/json")
                connection.send(request[:-100_000])
            readable, _, _ = select.select([slow.socket, late.socket], [], [], WAIT_S)
            answer = (slow if slow.socket in readable else late).answer()
            assert answer is not None
            # 408: where the machine was so slow that the first one seems to stall
            assert (answer.status, answer.headers.get("retry-after")) in ((503, "1"), (408, None))
            check_problem(answer.status, answer.headers, answer.body)
        with connect(gateway) as http:
            wait_until(lambda: _is_taken(http, b"x" * 90_000))  # it may still have to see that they are gone


def _is_taken(http: httpx.Client, body: bytes) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.post("/v1/topics/t/messages", content=body).status_code == 200
    return False


def test_a_request_that_is_whole_needs_no_room_beside_bodies_on_their_way(tmp_path: Path) -> None:
    """Where there was none for it, its connection was closed without an answer."""
    options = {"message_bytes_max": 100_000, "request_bytes_max": 1_000_000, "request_bytes_in_flight_max": 1_000_000}
    settings = {f"gateway__{name}": value for name, value in options.items()}
    with start_gateway(tmp_path, **settings) as gateway, Connection(gateway) as slow, Connection(gateway) as whole:
        slow.send(post("t", b"x" * 940_000, b"Content-Type: application/json")[:-10_000])
        # So small that the kernel hands it on in one piece: the second of two would need room.
        request = post("t", b'{"messages": [{"body": "%s"}]}' % (b"x" * 15_000), b"Content-Type: application/json")
        for _ in range(20):
            whole.send(request)
            assert getattr(whole.answer(), "status", None) == 200


def test_bodies_of_one_client_on_their_way_leave_room_for_those_of_another(tmp_path: Path) -> None:
    options = {"message_bytes_max": 500_000, "request_bytes_max": 1_000_000, "request_bytes_in_flight_max": 2_000_000}
    with start_gateway(tmp_path, **{f"gateway__{name}": value for name, value in options.items()}) as gateway:
        request = post("t", b"x" * 900_000, b"Content-Type: application/json")
        with Connection(gateway) as first, Connection(gateway) as second:
            first.send(request[:-500_000])
            second.send(request[:-500_000])
            readable, _, _ = select.select([first.socket, second.socket], [], [], WAIT_S)
            refused, other = (first, second) if first.socket in readable else (second, first)
            answer = refused.answer()
            assert answer is not None
            assert answer.status in (503, 408)  # 408: where the machine was so slow that the first one seems to stall
            with Connection(gateway, "127.0.0.2") as another:
                another.send(post("t", b"x" * 200_000))
                assert getattr(another.answer(), "status", None) == 200
            assert other.socket.fileno() >= 0


def test_a_poll_whose_client_has_gone_does_no_harm(gateway: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for _ in range(20):
        with Connection(gateway) as connection:
            path = f"/v1/topics/{topic}/queues/0/messages?offset=0&wait_ms=60000"
            connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert http.post(f"/v1/topics/{topic}/messages", content=b"hello").status_code == 200
    assert [message["body"] for message in pull(http, topic)["messages"]] == ["hello"]


def test_a_poll_whose_client_has_gone_ends_though_requests_wait_behind_it(tmp_path: Path) -> None:
    """Nothing was read while one waited, not even the end: the next message was given to who had gone."""
    poll = json.dumps({"topic": "t", "max": 32, "invisible_ms": 60_000, "wait_ms": 600_000}).encode()
    head = b"POST /v1/groups/g/receive HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with start_gateway(tmp_path, gateway__wait_ms_max=600_000) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for behind in (1, 10, 17, 100):  # of so many, the last are too many to be read
            with Connection(gateway) as connection:
                connection.send(head + b"Content-Length: %d\r\n\r\n" % len(poll) + poll)
                wait_until(lambda: waiting(http) == 1)
                for _ in range(behind):
                    connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * 20_000)
                assert http.get("/healthz").status_code == 200  # it has read on meanwhile
            wait_until(lambda: waiting(http) == 0)


@pytest.mark.parametrize("host", [b"[", b"a]b", b"\xff", b"a/b?c#d", b""])
@pytest.mark.parametrize("path", [b"/nope", b"/v1/topics/", b"/v1/topics/%2e%2e", b"/healthz/"])
def test_a_host_that_is_none_is_refused(gateway: GatewayProcess, host: bytes, path: bytes) -> None:
    with Connection(gateway) as connection:
        connection.send(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host))
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 421
        check_problem(answer.status, answer.headers, answer.body)


def test_the_body_of_a_control_request_is_bounded_too(http: httpx.Client, topic: str) -> None:
    response = http.put(f"/v1/topics/{topic}", content=b"[" * (5 * 1024 * 1024), headers={"Content-Type": JSON})
    assert is_problem(response, 413, "message_too_large")


def test_requests_that_differ_in_their_query_alone_are_each_answered_as_they_ask(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    for number in range(3):
        assert http.post(f"/v1/topics/{topic}/messages", content=b"%d" % number).status_code == 200
    target = b"GET /v1/topics/%s/queues/0/messages" % topic.encode()
    with Connection(gateway) as connection:

        def ask(query: bytes, *headers: bytes) -> tuple[int, bytes]:
            lines = b"".join(header + b"\r\n" for header in (b"Host: localhost", *headers))
            connection.send(target + query + b" HTTP/1.1\r\n" + lines + b"\r\n")
            answer = connection.answer()
            assert answer is not None
            return answer.status, answer.body

        for offset in (0, 2, 1, 0):
            status, body = ask(b"?offset=%d&max=1" % offset)
            assert status == 200
            assert b'"body":"%d"' % offset in body
        assert ask(b"?offset=%32&max=1")[1] == ask(b"?offset=2&max=1")[1]
        for query in (b"", b"?", b"?offset=0&offset=0", b"?offset=a", b"?what=0"):
            assert ask(query)[0] == 400
        assert ask(b"?offset=0")[0] == 200
        assert ask(b"?offset=0", b"Lakemq-Tag: x")[0] == 400
        assert ask(b"?offset=1", b"Lakemq-Tag: x")[0] == 400
        for _ in range(2):
            assert ask(b"?offset=0", b"Origin: http://evil.example")[0] == 403
            assert ask(b"?offset=1", b"Origin: http://evil.example")[0] == 403
        assert ask(b"?offset=0&max=3", b"Accept: application/x-ndjson")[1].count(b"\n") == 3


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("before", ["GET", "POST"])
def test_a_request_that_asks_for_http_2_again_and_again_is_not_taken_for_the_one_before(
    gateway: GatewayProcess, http: httpx.Client, topic: str, before: str
) -> None:
    """What was before it on its connection was answered, or it was no request at all, as it was remembered before it
    was parsed."""
    put_topic(http, topic)
    path = b"/v1/topics/%s" % topic.encode()
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" if before == "GET" else post(topic, b"quick")
    asking = b"GET %b?%%s HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path, UPGRADE)
    with Connection(gateway) as connection:
        for request in (first, first, asking % b"", asking % b"", asking % b"x=1", asking % b"", first):
            connection.send(request)
            answer = connection.answer()
            assert answer is not None
            assert answer.status == (400 if b"x=1" in request else 200), answer
            assert (b'"topic":"%b"' % topic.encode() in answer.body) == (request == asking % b"")


def test_a_request_that_comes_again_with_another_body_has_that(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    with Connection(gateway) as connection:
        for number in range(4):  # JSON goes through ASGI
            connection.send(post(topic, b'{"messages":[{"body":"%d"}]}' % number, b"Content-Type: application/json"))
            answer = connection.answer()
            assert answer is not None
            assert answer.status == 200
        request = post(topic, b'{"messages":[{"body":"4"}]}', b"Content-Type: application/json")
        connection.send(request[:-10])
        connection.send(request[-10:] + request.replace(b'"4"', b'"5"') + request.replace(b'"4"', b'"6"'))
        assert [getattr(connection.answer(), "status", None) for _ in range(3)] == [200] * 3
        connection.send(request.replace(b'"4"}', b'"7"['))
        assert getattr(connection.answer(), "status", None) == 400
    assert bodies(http, topic) == [str(number) for number in range(7)]
