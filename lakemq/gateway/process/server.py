"""The gateway's process: recover, listen, serve, stop in order."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from socket import socket
from types import MappingProxyType
from typing import NamedTuple

import uvloop

from lakemq.gateway.fleet.registrar import check_token_file
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.exchange import Exchange, quick_of
from lakemq.gateway.process.memory import bound_free_memory
from lakemq.gateway.work.work import Work
from lakemq.logs import say, set_up
from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.privacy import be_private
from lakemq.traces.open_spans import open_spans
from lakemq.traces.spans import Spans
from lakemq.web.asgi import App
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.guard import Guard
from lakemq.web.listen import allow_many_connections, listen, url_of
from lakemq.web.protocol import Connection, make_connection_class
from lakemq.web.server import Server, make_config
from lakemq.web.tls import Tls, end_of, tls_of

logger = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""So long a thread may keep the interpreter from the event loop, each time that the loop has let go of
it: threads answer large reads, and Python's 5 ms would be seen in every acknowledgement."""

GARBAGE = (10_000, 10, 10)
"""Python's `gc.set_threshold`: at most a million objects that are part of a cycle wait to be found."""


class Serving(NamedTuple):
    """A server, and what its connections are."""

    server: Server
    connections: type[Connection]


class Door(NamedTuple):
    """Where the gateway is asked. `tls`: by which; None: without."""

    listener: socket
    tls: Tls | None

    @property
    def url(self) -> str:
        """For who is on this machine."""
        return url_of(self.listener, self.tls is not None)


def _server(settings: Settings, front: App, broker: Broker | Exchange, door: Door) -> Serving:
    work = broker.work
    work.counters.certificate_end_s = end_of(door.tls)
    guard = Guard("gateway", settings.gateway, door.listener.getsockname()[1])
    connections = make_connection_class(ConnectionRules(settings.gateway, work.counters), guard)
    config = make_config(front, connections, settings.gateway.stop_grace_ms, door.tls)
    drain_ms = settings.gateway.drain_ms
    return Serving(Server(config, broker.leave, work.loop_lag.note, broker.depart, drain_ms), connections)


async def serve(
    settings: Settings,
    begin: Callable[[Server, str], None],
    clock: Clock | None = None,
    files: Files | None = None,
    renew: Callable[[], object] = gc.collect,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Serve until the server is told to stop. `begin` gets it, and its URL, just before the first request can be
    answered. `renew`: where leaders are elected, when one broker has gone, and another comes. `environment`: what may
    say where traces go. Raises as `run` does."""
    tls = tls_of(settings)
    check_token_file(settings)
    listener = listen(settings.gateway.host, settings.gateway.port)
    door = Door(listener, tls)
    spans: Spans | None = None
    try:
        spans = open_spans(settings.traces, "lakemq-gateway", settings.broker.name, environment)
        if settings.fleet.leader == "static":
            work = Work(settings.gateway, spans=spans)
            await _serve_one(settings, begin, Broker(settings, files, clock, work=work), door)
        else:
            await _serve_in_turns(settings, begin, Exchange(settings, files or Files(), clock, renew, spans), door)
    except LogDamaged as error:
        directory = settings.storage.data_dir
        raise LogDamaged(
            f"{error.detail}. lakemq log verify --data-dir {directory} shows all damage; "
            f"lakemq log repair --data-dir {directory} makes holes of what can't be read"
        ) from None
    finally:
        listener.close()
        if spans is not None:
            spans.close()


async def _serve_one(settings: Settings, begin: Callable[[Server, str], None], broker: Broker, door: Door) -> None:
    """Be what the settings say."""
    try:
        with _opening(settings):
            broker.open()
            await broker.start()
        app = make_app(broker)
        server, connections = _server(settings, app.front, broker, door)
        connections.quick = quick_of(broker, app)
        begin(server, door.url)
        broker.serve()
        broker.register(door.url)
        try:
            await server.serve_on(door.listener, settings.gateway, door.tls)
        finally:
            await broker.close()
    finally:
        broker.unlock()


async def _serve_in_turns(
    settings: Settings, begin: Callable[[Server, str], None], exchange: Exchange, door: Door
) -> None:
    """Be what is elected."""
    url = door.url
    server, connections = _server(settings, exchange, exchange, door)
    with exchange.holding_folder():
        begin(server, url)
        running = asyncio.ensure_future(exchange.run(connections, url))
        running.add_done_callback(lambda _: server.stop(drains=False))
        try:
            await server.serve_on(door.listener, settings.gateway, door.tls)
        finally:
            running.cancel()
            with _opening(settings):
                await asyncio.gather(running, return_exceptions=True)
                await exchange.close()
                if not running.cancelled() and (error := running.exception()) is not None:
                    raise error


@contextmanager
def _opening(settings: Settings) -> Generator[None]:
    try:
        yield
    except OSError as error:
        full = _no_room(settings) if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise LakemqError(f"can't open the log in {settings.storage.data_dir}: {error}{full}") from None


def _no_room(settings: Settings) -> str:
    """What to do where a start can't write: after a crash it keeps a torn tail beside the log, and begins an epoch with
    a frame of the log's state. Both are no larger than the last segment, which begins with such a frame."""
    segments = (settings.storage.data_dir / "commitlog").glob("*.log")
    last_bytes = max([(each.name, each.stat().st_size) for each in segments], default=("", 0))[1]
    return (
        f". Make {last_bytes / 2**20 + 1:,.0f} MiB of room on its disk, and start again: no start needs more. "
        "Nothing is lost so far; remove nothing from the log's folder"
    )


def _collect_garbage_seldom() -> None:
    """What is there now stays. And a large request is some 100,000 objects that die with it: looking through all of
    them again and again, which nobody can do in pieces, held everybody else up for 100 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _collect_what_was() -> None:
    """What was taken to stay for good has gone, as another broker comes."""
    gc.unfreeze()
    _collect_garbage_seldom()


def _say_ready(url: str) -> None:
    say(f"gateway: listening on {url}")


def run(settings: Settings, on_ready: Callable[[str], None] = _say_ready, clock: Clock | None = None) -> None:
    """Serve until SIGINT, SIGTERM or the terminal's end; `on_ready` gets the URL just before the first request can be
    answered. Raises `LogInUse`, `LogDamaged`, `CantListen`, `LakemqError`.

    On return no acknowledged message is lost, who waited was answered, and the log is on disk.
    """
    bound_free_memory()
    allow_many_connections()
    be_private()
    sys.setswitchinterval(SWITCH_S)
    set_up(settings.log.format, settings.log.level)

    def begin(server: Server, url: str) -> None:
        # Before anybody hears that it is ready: a signal that came in between would kill it.
        server.listen_to_signals()
        on_ready(url)
        _collect_garbage_seldom()

    uvloop.run(serve(settings, begin, clock, renew=_collect_what_was, environment=os.environ))
