"""uvicorn's server, which answers who waits before it closes connections, and leaves the process's end to us.

A stop has three steps: `leaving`, from which on it says that it isn't ready, and serves on for a while, as whoever
sends requests here learns that late; `stopping`, for who waits; then connections are closed as they have their answers.
A second signal skips what is left of the while and of the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Generator, Iterable
from types import FrameType
from typing import cast

import uvicorn

from lakemq.model.stop_signals import stop_signals
from lakemq.settings import Listener
from lakemq.web.asgi import App
from lakemq.web.protocol import Connection
from lakemq.web.secured_connection import secure
from lakemq.web.tls import Tls
from lakemq.web.watch import Watch

TICK_S = 0.1
"""The time between two of uvicorn's looks whether it should stop."""
SAME_STOP_S = 0.5
"""Signals within it are one request to stop: `timeout`, and shells that close, send the same one twice."""


def make_config(
    app: App, connection_class: type[Connection], stop_grace_ms: int, tls: Tls | None = None
) -> uvicorn.Config:
    """uvicorn's configuration: nothing but connections of that class, by TLS where there is one, given to the
    application."""
    made = connection_class if tls is None else secure(connection_class, tls)
    return uvicorn.Config(
        app,
        http=made,  # pyright: ignore[reportArgumentType]  it calls what makes a protocol, whatever that is
        proxy_headers=False,
        ws="none",
        lifespan="off",
        loop="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(stop_grace_ms // 1000, 1),
    )


class Server(uvicorn.Server):
    """`stopping` is called before connections are closed: who waits is to be answered. `leaving` is called as soon as
    it is asked to stop, which is `drain_ms` before. `late` is told now and then by how many seconds the event loop is
    late."""

    def __init__(
        self,
        config: uvicorn.Config,
        stopping: Callable[[], object],
        late: Callable[[float], object] = float,
        leaving: Callable[[], object] = bool,
        drain_ms: int = 0,
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._late = late
        self._leaving = leaving
        self._drain_s = drain_ms / 1000
        self._asked_s: float | None = None
        self._is_closing = False
        self._tick_s: float | None = None

    def listen_to_signals(self) -> None:
        """Stop in order from now on, when a signal asks for it."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self.handle_exit, number, None)

    def stop(self, drains: bool = True) -> None:
        """Stop in order, as a signal would. Any thread may call it. Not `drains`: nobody is served here any more."""
        if not drains:
            self._drain_s = 0.0
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal that asks for a stop has come, on the event loop."""
        if self._asked_s is None:
            self.should_exit = True
            self._leave()
        elif time.monotonic() - self._asked_s >= SAME_STOP_S:
            self.force_exit = True
            if self._is_closing:
                self._cut()

    def _leave(self) -> None:
        self._asked_s = time.monotonic()
        self._leaving()

    def _has_drained(self) -> bool:
        """Whether those who didn't know that it stops have had the time to learn it."""
        if self._asked_s is None:
            self._leave()
        return self.force_exit or time.monotonic() - (self._asked_s or 0.0) >= self._drain_s

    def _cut(self) -> None:
        """Close all connections, whatever is under way: of that nothing was acknowledged."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()

    async def serve_on(self, listener: socket.socket, limits: Listener, tls: Tls | None = None) -> None:
        """Serve until it is told to stop. `tls`: by which its connections speak, so it is kept as its files say."""
        connections = cast("Iterable[Connection]", self.server_state.connections)
        watch = Watch(limits, connections)
        watch.start()
        following = None if tls is None else asyncio.ensure_future(tls.follow())
        try:
            await self.serve(sockets=[listener])
        finally:
            watch.stop()
            if following is not None:
                following.cancel()

    async def on_tick(self, counter: int) -> bool:
        """uvicorn looks here ten times a second, so how late the loop is costs no timer of its own."""
        if self._tick_s is not None:
            self._late(time.monotonic() - self._tick_s - TICK_S)
        should_exit = await super().on_tick(counter) and self._has_drained()
        self._tick_s = time.monotonic()
        return should_exit

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._is_closing = True
        self._stopping()
        if self.force_exit:
            await asyncio.sleep(TICK_S)  # who waited is answered
            self._cut()
        await super().shutdown(sockets)
