"""uvicorn's server, which answers who waits before it closes connections, and leaves the process's end to us."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Generator, Iterable
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
    """`stopping` is called before connections are closed: who waits is to be answered. `late` is told now and then by
    how many seconds the event loop is late."""

    def __init__(
        self, config: uvicorn.Config, stopping: Callable[[], object], late: Callable[[float], object] = float
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._late = late
        self._tick_s: float | None = None

    def listen_to_signals(self) -> None:
        """Stop in order from now on, when a signal asks for it."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self.handle_exit, number, None)

    def stop(self) -> None:
        """Stop in order, as a signal would. Any thread may call it."""
        self.should_exit = True

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
        should_exit = await super().on_tick(counter)
        self._tick_s = time.monotonic()
        return should_exit

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)
