"""A proxy between a client and its broker, that holds requests back, or answers them itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
from aiohttp import web

WAIT_S = 60.0
_NOT_PASSED_ON = {"host", "content-length", "transfer-encoding", "connection"}


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str


Which = Callable[[Asked], bool]


class Between:
    """Lives on the event loop of the test. `heard`: all that was asked."""

    def __init__(self, broker: str) -> None:
        self.url = ""
        self.heard: list[Asked] = []
        self.held = asyncio.Event()
        """Something is held back."""
        self._broker = broker
        self._holds: Which = lambda asked: False
        self._released = asyncio.Event()
        self._answer: Callable[[Asked], web.Response | None] = lambda asked: None

    def hold(self, which: Which) -> None:
        """Hold such requests back until `release`."""
        self._holds = which
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Let everything go on."""
        self._holds = lambda asked: False
        self._released.set()

    def answer(self, which: Which, status: int, code: str) -> None:
        """Answer such requests with an error, from now on."""
        said = {"code": code, "detail": "said by a test", "status": status}
        self._answer = lambda asked: web.json_response(said, status=status) if which(asked) else None

    def pass_on(self) -> None:
        """Answer nothing any more."""
        self._answer = lambda asked: None

    async def handle(self, request: web.Request) -> web.Response:
        """One request."""
        asked = Asked(request.method, request.path)
        body = await request.read()
        self.heard.append(asked)
        if self._holds(asked):
            self.held.set()
            await self._released.wait()
        answered = self._answer(asked)
        if answered is not None:
            return answered
        headers = {name: each for name, each in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, self._broker + request.path_qs, data=body, headers=headers) as response,
        ):
            headers = {name: each for name, each in response.headers.items() if name.lower() not in _NOT_PASSED_ON}
            return web.Response(status=response.status, headers=headers, body=await response.read())


@asynccontextmanager
async def between(broker: str) -> AsyncGenerator[Between]:
    """One for that broker."""
    made = Between(broker)
    application = web.Application(client_max_size=1 << 28)
    application.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = "http://{}:{}".format(*runner.addresses[0][:2])
    try:
        async with asyncio.timeout(2 * WAIT_S):
            yield made
    finally:
        made.release()
        await runner.cleanup()
