"""What a connection keeps of its quick requests: the one that is being served, and the head of the last."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

from lakemq.web.problems import Headers
from lakemq.web.seat import Seat


class Answering(Protocol):
    """A connection that waits for one answer."""

    @property
    def response_complete(self) -> bool:
        """Whether it is answered."""
        ...

    @property
    def seat(self) -> Seat:
        """The connection's place among its user's."""
        ...

    def answer(self, data: bytes) -> None:
        """Write the whole answer."""
        ...


class Wanted(Protocol):
    """What a request's line and headers ask for: the same of each request whose head is the same."""

    @property
    def may_come_again(self) -> bool:
        """Whether the same may be asked for once more."""
        ...


class Quick(Protocol):
    """Serves the hottest requests without ASGI."""

    def look(self, url: bytes, headers: Headers, address: str | None, /) -> Wanted | None:
        """What a POST from that address asks for; None when it has to go the long way."""
        ...

    def serve(self, connection: Answering, wanted: Any, body: bytes, /) -> bool:
        """Do what `look` found; False when it has to go the long way, and nothing has happened."""
        ...


class Connected(Protocol):
    """A connection that such a request came on."""

    transport: asyncio.Transport
    seat: Seat

    def on_response_complete(self) -> None:
        """The answer is written."""
        ...


class _NoEvent:
    def set(self) -> None:
        """Nobody waits."""


class QuickCycle:
    """Stands for uvicorn's cycle of a request that is served without ASGI."""

    __slots__ = ("_connection", "disconnected", "keep_alive", "response_complete", "seat")
    response_started = False
    more_body = False
    message_event = _NoEvent()

    def __init__(self, connection: Connected) -> None:
        self._connection = connection
        self.seat = connection.seat
        self.keep_alive = True
        self.response_complete = False
        self.disconnected = False

    def answer(self, data: bytes) -> None:
        """Write the whole answer."""
        connection = self._connection
        self.response_complete = True
        if self.disconnected or connection.transport.is_closing():
            return
        if not self.keep_alive:
            data = data.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)
        connection.transport.write(data)
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()


class Repeated(NamedTuple):
    """A quick request's head as it came, which a client that sends one after the other mostly sends again: what it
    was found to be the first time it is each time, so nobody parses it, or asks the guard, once more."""

    head: bytes
    bytes: int
    """Of the whole request."""
    wanted: Wanted
