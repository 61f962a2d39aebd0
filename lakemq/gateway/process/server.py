"""The gateway's process: recover, listen, serve, stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import socket
import sys
import time
from collections.abc import Callable, Generator
from typing import cast

import uvicorn
import uvloop

from lakemq.gateway.http.guard import Guard
from lakemq.gateway.http.watch import Watch
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.protocol import Connection, ConnectionRules, make_connection_class
from lakemq.gateway.process.quick import Quick
from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.model.stop_signals import stop_signals
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.privacy import be_private

logger = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""So long a thread may keep the interpreter from the event loop, each time that the loop has let go of
it: threads answer large reads, and Python's 5 ms would be seen in every acknowledgement."""

TICK_S = 0.1
"""The time between two of uvicorn's looks whether it should stop."""

GARBAGE = (10_000, 10, 10)
"""Python's `gc.set_threshold`: at most a million objects that are part of a cycle wait to be found."""


class CantListen(LakemqError):
    """The address can't be listened on."""

    code = "cant_listen"


class Server(uvicorn.Server):
    """uvicorn's server that answers who waits before it closes connections, and that leaves the
    end of the process to us: the log is closed after it."""

    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self._broker = broker
        self._tick_s: float | None = None

    def listen_to_signals(self) -> None:
        """Stop in order from now on, when a signal asks for it."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self.handle_exit, number, None)

    def stop(self) -> None:
        """Stop in order, as a signal would. Any thread may call it."""
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """uvicorn looks here ten times a second, so how late the loop is costs no timer of its own."""
        if self._tick_s is not None:
            self._broker.work.loop_lag.note(time.monotonic() - self._tick_s - TICK_S)
        should_exit = await super().on_tick(counter)
        self._tick_s = time.monotonic()
        return should_exit

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._broker.work.waiters.stop()
        await super().shutdown(sockets)


def _allow_many_connections() -> None:
    """A connection is an open file, and of those a process may have few unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(4096)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        raise CantListen(f"can't listen on {host}:{port}: {error}") from None
    return listener


def _config(settings: Settings, broker: Broker, port: int) -> uvicorn.Config:
    app = make_app(broker)
    quick = Quick(broker.store, app.producer, broker.router.transactions, broker.work.counters)
    guard = Guard(settings.gateway, port)
    return uvicorn.Config(
        app.front,
        http=make_connection_class(ConnectionRules(settings.gateway, broker.work.counters), quick, guard),
        proxy_headers=False,
        ws="none",
        lifespan="off",
        loop="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(settings.gateway.stop_grace_ms // 1000, 1),
    )


async def serve(
    settings: Settings, begin: Callable[[Server, str], None], clock: Clock | None = None, files: Files | None = None
) -> None:
    """Serve until the server is told to stop. `begin` gets it, and its URL, just before the first request can be
    answered. Raises as `run` does."""
    broker = Broker(settings, files, clock)
    listener = _listen(settings.gateway.host, settings.gateway.port)
    try:
        try:
            broker.open()
            await broker.start()
        except LogDamaged as error:
            directory = settings.storage.data_dir
            raise LogDamaged(
                f"{error.detail}. lakemq log verify --data-dir {directory} shows all damage; "
                f"lakemq log repair --data-dir {directory} makes holes of what can't be read"
            ) from None
        except OSError as error:
            raise LakemqError(f"can't open the log in {settings.storage.data_dir}: {error}") from None
        host, port = listener.getsockname()[:2]
        server = Server(_config(settings, broker, port), broker)
        begin(server, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        connections = cast("set[Connection]", server.server_state.connections)
        watch = Watch(settings.gateway, connections)
        watch.start()
        try:
            await server.serve(sockets=[listener])
        finally:
            watch.stop()
            await broker.close()
    finally:
        broker.unlock()
        listener.close()


def _collect_garbage_seldom() -> None:
    """What is there now stays. And a large request is some 100,000 objects that die with it: looking through all of
    them again and again, which nobody can do in pieces, held everybody else up for 100 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _say_ready(url: str) -> None:
    sys.stderr.write(f"gateway: listening on {url}\n")
    sys.stderr.flush()


def run(settings: Settings, on_ready: Callable[[str], None] = _say_ready, clock: Clock | None = None) -> None:
    """Serve until SIGINT, SIGTERM or the terminal's end; `on_ready` gets the URL just before the first request can be
    answered. Raises `LogInUse`, `LogDamaged`, `CantListen`, `LakemqError`.

    On return no acknowledged message is lost, who waited was answered, and the log is on disk.
    """
    _allow_many_connections()
    be_private()
    sys.setswitchinterval(SWITCH_S)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    def begin(server: Server, url: str) -> None:
        # Before anybody hears that it is ready: a signal that came in between would kill it.
        server.listen_to_signals()
        on_ready(url)
        _collect_garbage_seldom()

    uvloop.run(serve(settings, begin, clock))
