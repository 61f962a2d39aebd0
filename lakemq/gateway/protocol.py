"""The HTTP connection: uvicorn's protocol, with everything it reads bounded and every error a problem."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakemq.gateway.asgi import App, Receive, Scope, Send, send_answer
from lakemq.gateway.guard import Guard
from lakemq.gateway.problems import Answer, make_problem, to_bytes
from lakemq.gateway.quick import Quick

HEAD_BYTES_MAX = 64 * 1024
"""Of a request line and its headers, of a chunk's extensions, of trailers: what is no body."""


async def _refuse_for_now(scope: Scope, receive: Receive, send: Send) -> None:
    close = [(b"connection", b"close")]
    await send_answer(send, make_problem("busy", "the gateway has as many connections as it may", close))


def _refuse(answer: Answer) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, answer)

    return app


class _NoEvent:
    def set(self) -> None:
        """Nobody waits."""


class QuickCycle:
    """Stands for uvicorn's cycle of a request that is served without ASGI."""

    __slots__ = ("_connection", "disconnected", "keep_alive", "response_complete")
    response_started = False
    more_body = False
    message_event = _NoEvent()

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
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


class Connection(HttpToolsProtocol):
    """One connection. `make_connection_class` says how many there may be."""

    connections_max: int
    quick: Quick
    guard: Guard

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._bytes_since_body = 0
        self._begun = False
        self._upgrading = False
        self._running: Any = None
        self._held: list[bytes] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self.app = _refuse_for_now  # pyright: ignore[reportAttributeAccessIssue]

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._bytes_since_body += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("this is no HTTP/1.1 request")
            return
        if self._held is not None:  # the rest of the body is still to come
            self._go_the_long_way()
        if self._bytes_since_body > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response(f"the request's line and headers have more than {HEAD_BYTES_MAX} bytes")

    def _feed(self, data: bytes) -> None:
        while data:  # an empty feed would mean the end of the stream
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # The parser would take nothing any more, and it has passed over the request's body.
                head = self._head_without_upgrade() if self._upgrading else b""
                data = head + data[upgrade.args[0] :]
                self._upgrading = False
                self.parser = httptools.HttpRequestParser(self)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The request as it would be without its wish for another protocol: none is spoken here."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_headers_complete(self) -> None:
        self._bytes_since_body = 0
        if self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers):
            self._upgrading = True
            return
        problem = self._look()
        if problem is not None:
            self._refuse_one(problem)
            return
        if self._may_be_quick():
            self._held = []
            return
        super().on_headers_complete()
        self._begun = True

    def _look(self) -> Answer | None:
        parser = self.parser
        needs_host = parser.get_http_version() != "1.0"
        return self.guard.problem(parser.get_method(), self.url, self.headers, needs_host, self.server)

    def _refuse_one(self, problem: Answer) -> None:
        """Answer this request with a problem, whatever its body is, when it is its turn."""
        app, self.app = self.app, _refuse(problem)  # pyright: ignore[reportAttributeAccessIssue]
        try:
            super().on_headers_complete()
        finally:
            self.app = app
        self._begun = True

    def _may_be_quick(self) -> bool:
        cycle, parser = self.cycle, self.parser
        return (
            (not cycle or cycle.response_complete)
            and parser.get_method() == b"POST"
            and parser.should_keep_alive()
            and parser.get_http_version() == "1.1"
            and not self.flow.write_paused
            and not self.expect_100_continue
            and self.app is not _refuse_for_now
        )

    def _go_the_long_way(self) -> None:
        """Give the request that was held back to the application."""
        held, self._held = self._held, None
        super().on_headers_complete()
        self._begun = True
        for piece in held or ():
            super().on_body(piece)

    def on_message_complete(self) -> None:
        held = self._held
        if held is not None:
            body = held[0] if len(held) == 1 else b"".join(held)
            cycle = QuickCycle(self)
            if self.quick.serve(cycle, self.url, self.headers, body):
                self._held = None
                self._begun = True
                self.cycle = cycle  # pyright: ignore[reportAttributeAccessIssue]  pipelined requests wait for it
                self._running = cycle
                return
            self._go_the_long_way()
        if not self._upgrading:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_since_body = 0
        if self._held is not None:
            self._held.append(body)
            return
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if self._begun and not cycle.response_complete and (cycle.response_started or not cycle.more_body):
            # The bad bytes follow a request that is still being answered: this answer is the last.
            cycle.keep_alive = False
            return
        if not self.pipeline:
            self.transport.write(to_bytes(make_problem("invalid_request", msg), close=True))
        self.transport.close()
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        """Let the request that is being served know that nobody reads its answer: uvicorn tells only
        the newest one, which may still wait for its turn, and the other would write all the same."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()


def make_connection_class(connections_max: int, quick: Quick, guard: Guard) -> type[Connection]:
    """The protocol of a gateway that serves at most so many connections at once."""
    return type(
        "BoundedConnection", (Connection,), {"connections_max": connections_max, "quick": quick, "guard": guard}
    )
