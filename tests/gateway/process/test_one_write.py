"""An answer goes out in one write."""

from __future__ import annotations

import asyncio

from lakemq.gateway.process.one_write import OneWrite

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


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


def test_a_head_goes_with_the_first_of_its_body() -> None:
    transport = Transport()
    once = OneWrite(transport)
    for data in (HEAD, b"a", b"b"):
        once.write(data)
    assert transport.written == [HEAD + b"a", b"b"]


def test_an_answer_without_a_body_is_written_too() -> None:
    transport = Transport()
    once = OneWrite(transport)
    once.write(HEAD)
    once.write(b"")
    assert transport.written == [HEAD]


def test_a_large_body_is_not_copied() -> None:
    transport = Transport()
    once = OneWrite(transport)
    once.write(HEAD)
    once.write(memoryview(bytes(100_000)))
    assert transport.written == [HEAD, bytes(100_000)]


def test_who_may_go_on_with_his_body_is_told_at_once() -> None:
    transport = Transport()
    once = OneWrite(transport)
    once.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    once.write(HEAD)
    assert transport.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]


def test_a_head_is_written_before_the_connection_closes() -> None:
    transport = Transport()
    once = OneWrite(transport)
    once.write(HEAD)
    assert not once.is_closing()
    once.close()
    assert transport.written == [HEAD]
    assert once.is_closing()
