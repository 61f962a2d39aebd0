"""uvicorn's cycle of one request, which writes a whole answer at once and tells when the client goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from lakemq.web.asgi import Scope, Whole
from lakemq.web.gone import Gone
from lakemq.web.problems import Answer, Headers

_COPIED_BYTES_MAX = 64 * 1024
"""A longer body isn't copied behind its head: that costs more than a second write."""
_OF_THE_CONNECTION = frozenset((b"connection", b"transfer-encoding"))


class Cycle(RequestResponseCycle, Whole):
    """An answer's head waits for what follows it. One that is whole then goes out in one write, as long as nothing
    about it is special; all others are written by uvicorn. A body in two writes would wake its reader twice."""

    access_log = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    status = 0
    """Of the answer; 0: there is none yet."""

    def __init__(  # pyright: ignore[reportMissingSuperCall]  what it sets is the same each time, and set above
        self,
        gone: Gone,
        scope: Scope,
        transport: asyncio.Transport,
        flow: FlowControl,
        logger: logging.Logger,
        default_headers: Headers,
        *,
        expect_100_continue: bool,
        keep_alive: bool,
        on_response: Callable[[], None],
    ) -> None:
        self._gone = gone
        self._head: Any = None
        self.scope = scope  # pyright: ignore[reportAttributeAccessIssue]  uvicorn's own types
        self.transport = transport
        self.flow = flow
        self.logger = logger
        self.default_headers = default_headers
        self.message_event = asyncio.Event()
        self.on_response = on_response
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expect_100_continue
        self.body = bytearray()

    @property
    def disconnected(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether nobody reads the answer any more."""
        return self._gone.happened

    @disconnected.setter
    def disconnected(self, value: bool) -> None:
        if value:
            self._gone.happen()

    @property
    def ends_with_client(self) -> bool:
        """Whether it is held, and for nothing once the client has gone."""
        return self._gone.is_asked

    async def send(self, message: Any) -> None:
        """ASGI's."""
        if message["type"] == "http.response.start" and (self._head is not None or not self.response_started):
            self._head = message
            return
        if self._head is None:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head, self._head = self._head, None
        is_whole = message["type"] == "http.response.body" and not message.get("more_body")
        if is_whole and self._write(head["status"], head["headers"], message.get("body", b"")):
            return
        self.status = head["status"]
        await super().send(head)
        await super().send(message)

    def answer_at_once(self, answer: Answer) -> bool:
        """As `Whole`: what ASGI's two messages would come to, without them."""
        if self.response_started or self._head is not None or self.flow.write_paused or self._gone.happened:
            return False
        headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
        return self._write(answer.status, headers, answer.body)

    def _write(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes | memoryview) -> bool:
        """Write a plain whole answer; False when it isn't one, and nothing has happened."""
        start = self._start(status, headers, len(body))
        if start is None:
            return False
        self.status = status
        if len(body) > _COPIED_BYTES_MAX:
            self.transport.write(start)
            self.transport.write(body)
        else:
            self.transport.write(b"%b%b" % (start, body))
        self.waiting_for_100_continue = False
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()
        return True

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]], body_bytes: int) -> bytes | None:
        """The line and headers of a plain whole answer with a body of that size; None when it isn't one."""
        if not self.keep_alive or self.scope["method"] == "HEAD":
            return None
        content, sized = [STATUS_LINE[status]], False
        for name, value in (*self.default_headers, *headers):
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                return None
            lower = name.lower()
            if lower == b"content-length":
                sized = value == b"%d" % body_bytes
            elif lower in _OF_THE_CONNECTION:
                return None
            content += (lower, b": ", value, b"\r\n")
        content.append(b"\r\n")
        return b"".join(content) if sized else None
