"""Server-sent events: what keeps a page current, as long as somebody has it open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lakemq.console.places import Places
from lakemq.web.gone import client_gone

STREAM_S_MAX = 600.0
"""Then the browser reconnects by itself, and its session is checked again."""
QUIET_S_MAX = 15.0
"""Something is sent this often, if only a comment, so that a closed connection is noticed."""
RETRY_MS = 3_000


class Event(NamedTuple):
    """`kind`: what a page listens for. `data`: text, or what JSON says."""

    kind: str
    data: Any

    def encode(self) -> bytes:
        """As the stream has it."""
        text = self.data if isinstance(self.data, str) else json.dumps(self.data)
        lines = "".join(f"data: {line}\n" for line in text.replace("\r", "").split("\n"))
        return f"event: {self.kind}\n{lines}\n".encode()


class EventStream(Response):
    """Events as they happen, until the browser leaves, the console stops, or it is time to reconnect."""

    def __init__(self, events: AsyncIterator[Event], places: Places, user: str) -> None:
        """`user`: whose of the places it takes."""
        super().__init__(media_type="text/event-stream")
        self._events = events
        self._places, self._user = places, user
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's."""
        with self._places.place(self._user):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            writing = asyncio.ensure_future(self._write(send))
            stopping = asyncio.ensure_future(self._places.stopping.wait())
            gone = client_gone(scope)
            try:
                await asyncio.wait({writing, stopping, gone}, timeout=STREAM_S_MAX, return_when=asyncio.FIRST_COMPLETED)
            finally:
                writing.cancel()
                stopping.cancel()
                await asyncio.gather(writing, stopping, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        async def put(content: bytes) -> None:
            await send({"type": "http.response.body", "body": content, "more_body": True})

        await put(f"retry: {RETRY_MS}\n\n".encode())
        coming = asyncio.ensure_future(anext(self._events))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=QUIET_S_MAX)
                if not done:
                    await put(b":\n\n")
                    continue
                try:
                    event = coming.result()
                except StopAsyncIteration:
                    return
                await put(event.encode())
                coming = asyncio.ensure_future(anext(self._events))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
