"""Routes of FastAPI that only hand on to a handler of the front."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Response

from lakemq.gateway.http.asgi import Receive, Scope, Send


class Delegated(Response):
    """A response that `serve`, a handler of the front, sends."""

    def __init__(self, serve: Callable[[Scope, Receive, Send, str], Awaitable[None]], path: str) -> None:
        super().__init__()
        self._serve = serve
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send, self._path)
