"""The gateway's process: recover, listen, serve, stop in order."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable

import uvicorn
import uvloop

from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.memory import bound_free_memory
from lakemq.gateway.process.quick import Quick
from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.privacy import be_private
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.guard import Guard
from lakemq.web.listen import allow_many_connections, listen, url_of
from lakemq.web.protocol import make_connection_class
from lakemq.web.server import Server, make_config

logger = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""So long a thread may keep the interpreter from the event loop, each time that the loop has let go of
it: threads answer large reads, and Python's 5 ms would be seen in every acknowledgement."""

GARBAGE = (10_000, 10, 10)
"""Python's `gc.set_threshold`: at most a million objects that are part of a cycle wait to be found."""


def _config(settings: Settings, broker: Broker, port: int) -> uvicorn.Config:
    app = make_app(broker)
    quick = None
    if broker.follower is None:  # all that is quick writes
        quick = Quick(broker.store, app.producer, broker.router.transactions, broker.work.counters)
    guard = Guard("gateway", settings.gateway, port)
    rules = ConnectionRules(settings.gateway, broker.work.counters)
    return make_config(app.front, make_connection_class(rules, guard, quick), settings.gateway.stop_grace_ms)


async def serve(
    settings: Settings, begin: Callable[[Server, str], None], clock: Clock | None = None, files: Files | None = None
) -> None:
    """Serve until the server is told to stop. `begin` gets it, and its URL, just before the first request can be
    answered. Raises as `run` does."""
    broker = Broker(settings, files, clock)
    listener = listen(settings.gateway.host, settings.gateway.port)
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
        config = _config(settings, broker, listener.getsockname()[1])
        server = Server(config, broker.leave, broker.work.loop_lag.note)
        begin(server, url_of(listener))
        broker.serve()
        broker.registrar.start(url_of(listener))
        try:
            await server.serve_on(listener, settings.gateway)
        finally:
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
    bound_free_memory()
    allow_many_connections()
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
