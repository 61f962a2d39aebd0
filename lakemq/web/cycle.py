"""uvicorn's cycle of one request, which writes a whole answer at once and tells when the client goes."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from lakemq.web.gone import Gone
from lakemq.web.problems import Headers

_COPIED_BYTES_MAX = 64 * 1024
"""A longer body isn't copied behind its head: that costs more than a second write."""
_OF_THE_CONNECTION = frozenset((b"connection", b"transfer-encoding"))
OF_UVICORN = (
    *("scope", "transport", "flow", "message_event", "on_response", "disconnected", "keep_alive"),
    *("send", "response_started", "response_complete", "waiting_for_100_continue", "default_headers"),
)
"""What is taken of uvicorn's cycle."""


class Cycle(RequestResponseCycle):
    """An answer's head waits for what follows it. One that is whole then goes out in one write, as long as nothing
    about it is special; all others are written by uvicorn. A body in two writes would wake its reader twice."""

    def __init__(self, gone: Gone, **named: Any) -> None:
        self._gone = gone
        self._head: Any = None
        super().__init__(**named)

    @property
    def disconnected(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether nobody reads the answer any more."""
        return self._gone.happened

    @disconnected.setter
    def disconnected(self, value: bool) -> None:
        if value:
            self._gone.happen()

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
        if message["type"] == "http.response.body" and not message.get("more_body"):
            body = message.get("body", b"")
            start = self._start(head, len(body))
            if start is not None:
                self._write(start, body)
                return
        await super().send(head)
        await super().send(message)

    def _start(self, head: Any, body_bytes: int) -> bytes | None:
        """An answer's line and headers, if it is a plain whole one."""
        if not self.keep_alive or self.scope["method"] == "HEAD":
            return None
        headers: Headers = self.default_headers + list(head["headers"])
        content, sized = [STATUS_LINE[head["status"]]], False
        for name, value in headers:
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

    def _write(self, start: bytes, body: bytes) -> None:
        if len(body) > _COPIED_BYTES_MAX:
            self.transport.write(start)
            self.transport.write(body)
        else:
            self.transport.write(start + body)
        self.waiting_for_100_continue = False
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()
