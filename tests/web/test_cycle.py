"""An answer goes out in one write, and who holds a request is told when its client goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from lakemq.web.asgi import send_answer
from lakemq.web.cycle import Cycle
from lakemq.web.gone import client_gone, put_gone
from lakemq.web.problems import Answer, Headers

OK = b"HTTP/1.1 200 OK\r\n"
Header = tuple[bytes, bytes]


class Transport(asyncio.Transport):
    """Remembers what was written in one go."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def resume_reading(self) -> None:
        """There is nothing to read."""


class Answered:
    """A request, and what was written for it."""

    def __init__(self, method: str = "GET", *, keep_alive: bool = True, expects: bool = False) -> None:
        self.transport = Transport()
        flow = FlowControl(self.transport)
        self.scope: dict[str, Any] = {"method": method}
        self.completed = 0
        headers = [(b"server", b"x")]
        gone, logger = put_gone(self.scope, flow), logging.getLogger(__name__)
        expected = {"expect_100_continue": expects, "keep_alive": keep_alive}
        connection = self.transport, flow, logger, headers
        self.cycle = Cycle(gone, self.scope, *connection, **expected, on_response=self._complete)

    def _complete(self) -> None:
        self.completed += 1

    async def answer(self, headers: Sequence[Header], *bodies: bytes, status: int = 200) -> list[bytes]:
        """What is written, piece by piece."""
        await self.cycle.send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for number, body in enumerate(bodies, 1):
            more = number < len(bodies)
            await self.cycle.send({"type": "http.response.body", "body": body, "more_body": more})
        return self.transport.written


def size(body: bytes) -> Header:
    return b"content-length", b"%d" % len(body)


def run(answered: Answered, headers: Sequence[Header], *bodies: bytes, status: int = 200) -> list[bytes]:
    return asyncio.run(answered.answer(headers, *bodies, status=status))


def test_a_whole_answer_is_one_write() -> None:
    answered = Answered()
    written = run(answered, [(b"Content-Type", b"text/plain"), size(b"hello")], b"hello")
    assert written == [OK + b"server: x\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"]
    assert answered.completed == 1
    assert answered.cycle.response_complete


def test_a_large_body_is_not_copied() -> None:
    body = bytes(100_000)
    head, rest = run(Answered(), [size(body)], body)
    assert head.endswith(b"content-length: 100000\r\n\r\n")
    assert rest == body


def test_pieces_are_written_as_they_come() -> None:
    written = run(Answered(), [], b"a", b"b")
    assert b"".join(written).endswith(b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n")


@pytest.mark.parametrize("bodies", [(b"hello",), (b"hel", b"lo")])
def test_the_last_answer_of_a_connection_says_so_and_closes_it(bodies: tuple[bytes, ...]) -> None:
    answered = Answered(keep_alive=False)
    written = b"".join(run(answered, [size(b"hello")], *bodies))
    assert written.count(b"connection: close\r\n") == 1
    assert answered.transport.closed


def test_an_answer_may_ask_for_the_connection_to_be_closed() -> None:
    answered = Answered()
    run(answered, [size(b""), (b"Connection", b"close")], b"")
    assert answered.transport.closed


def test_a_head_alone_has_no_body() -> None:
    written = b"".join(run(Answered("HEAD"), [size(b"hello")], b"hello"))
    assert written.endswith(b"content-length: 5\r\n\r\n")


@pytest.mark.parametrize("header", [(b"x", b"a\r\nb: c"), (b"x\r\ny", b"a"), (b"x y", b"a"), (b"x", b"\0")])
def test_no_header_can_begin_another(header: Header) -> None:
    answered = Answered()
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        run(answered, [size(b""), header], b"")
    assert answered.transport.written == []


@pytest.mark.parametrize("said", [b"4", b"6", b"05"])
def test_a_length_is_the_bodys(said: bytes) -> None:
    answered = Answered()
    if said == b"05":  # means five: uvicorn takes it
        assert b"".join(run(answered, [(b"content-length", said)], b"hello")).endswith(b"\r\n\r\nhello")
    else:
        with pytest.raises(RuntimeError, match="Content-Length"):
            run(answered, [(b"content-length", said)], b"hello")


def test_nothing_is_written_to_who_has_gone() -> None:
    answered = Answered()
    answered.cycle.disconnected = True
    assert run(answered, [size(b"hello")], b"hello") == []
    assert not answered.cycle.response_complete


def test_an_answer_that_fails_half_way_can_be_made_anew() -> None:
    async def go() -> list[bytes]:
        answered = Answered()
        await answered.cycle.send({"type": "http.response.start", "status": 200, "headers": [size(b"")]})
        await answered.cycle.send({"type": "http.response.start", "status": 500, "headers": [size(b"no")]})
        await answered.cycle.send({"type": "http.response.body", "body": b"no"})
        return answered.transport.written

    (written,) = asyncio.run(go())
    assert written.startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize("first", [True, False])
def test_who_asks_is_told_that_the_client_has_gone(first: bool) -> None:
    async def go() -> None:
        answered = Answered()
        if first:
            answered.cycle.disconnected = True
        gone = client_gone(answered.scope)
        assert gone.done() is first
        answered.cycle.disconnected = True
        answered.cycle.disconnected = True
        await asyncio.wait_for(gone, 60)
        assert client_gone(answered.scope) is gone

    asyncio.run(go())


def answer_at_once(answered: Answered, headers: Headers, body: bytes) -> list[bytes]:
    asyncio.run(send_answer(answered.cycle.send, Answer(200, headers, body)))
    return answered.transport.written


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [[], [(b"X", b"y")], [(b"connection", b"close")]])
def test_an_answer_without_messages_is_what_it_is_with_them(method: str, headers: Headers, *, keep_alive: bool) -> None:
    at_once, in_messages = (Answered(method, keep_alive=keep_alive) for _ in range(2))
    written = answer_at_once(at_once, headers, b"hello")
    assert b"".join(written) == b"".join(run(in_messages, [*headers, size(b"hello")], b"hello"))
    assert at_once.completed == in_messages.completed == 1
    assert at_once.transport.closed is in_messages.transport.closed


def test_an_answer_without_messages_waits_for_a_client_that_does_not_read() -> None:
    async def go() -> None:
        answered = Answered()
        answered.cycle.flow.pause_writing()
        sending = asyncio.ensure_future(send_answer(answered.cycle.send, Answer(200, [], b"hello")))
        for _ in range(5):
            await asyncio.sleep(0)
        assert answered.transport.written == []
        answered.cycle.flow.resume_writing()
        async with asyncio.timeout(60):
            await sending
        assert b"".join(answered.transport.written).endswith(b"\r\n\r\nhello")

    asyncio.run(go())


def test_an_answer_without_messages_is_not_written_to_who_has_gone() -> None:
    answered = Answered()
    answered.cycle.disconnected = True
    assert answer_at_once(answered, [], b"hello") == []


def test_an_answer_without_messages_has_no_header_that_begins_another() -> None:
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        answer_at_once(Answered(), [(b"x", b"a\r\nb: c")], b"")
