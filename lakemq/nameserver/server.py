"""A name server's process: listen, serve, stop in order."""

from __future__ import annotations

import gc
from collections.abc import Callable

import uvicorn
import uvloop

from lakemq.contract.grammar import Grammar
from lakemq.contract.nameserver_routes import ALL
from lakemq.logs import say, set_up
from lakemq.nameserver.handlers import make_handlers
from lakemq.nameserver.name_server import NameServer
from lakemq.settings import Settings
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.front import Front
from lakemq.web.guard import Guard
from lakemq.web.listen import allow_many_connections, listen, url_of
from lakemq.web.protocol import make_connection_class
from lakemq.web.server import Server, make_config
from lakemq.web.tls import Tls, end_of, tls_of

GARBAGE = (10_000, 10, 10)
"""Python's `gc.set_threshold`. Of what waits nothing is part of a cycle, and thousands of requests wait."""
GRAMMAR = Grammar(ALL)
"""Of a name server's contract."""


def _config(name_server: NameServer, port: int, tls: Tls | None) -> uvicorn.Config:
    limits, counters = name_server.limits, name_server.counters
    counters.certificate_end_s = end_of(tls)
    handlers, most = make_handlers(name_server), limits.request_bytes_max
    front = Front(
        GRAMMAR, handlers, None, most, counters.problem, access=name_server.access, durations=counters.durations
    )
    rules, guard = ConnectionRules(limits, counters), Guard("nameserver", limits, port)
    return make_config(front, make_connection_class(rules, guard), limits.stop_grace_ms, tls)


async def serve(settings: Settings, begin: Callable[[Server, str], None]) -> None:
    """Serve until the server is told to stop. `begin` gets it, and its URL, just before the first request can be
    answered. Raises `CantListen`, and `SettingsError` where certificates or tokens can't be used."""
    limits = settings.nameserver
    tls = tls_of(settings)
    listener = listen(limits.host, limits.port)
    try:
        name_server = NameServer(limits)
        config = _config(name_server, listener.getsockname()[1], tls)
        stopping, leaving, drain_ms = name_server.watchers.stop, name_server.depart, limits.drain_ms
        server = Server(config, stopping, leaving=leaving, drain_ms=drain_ms)
        begin(server, url_of(listener, tls is not None))
        name_server.start()
        try:
            await server.serve_on(listener, limits, tls)
        finally:
            await name_server.close()
    finally:
        listener.close()


def _say_ready(url: str) -> None:
    say(f"nameserver: listening on {url}")


def run(settings: Settings) -> None:
    """Serve until SIGINT, SIGTERM or the terminal's end, and say on stderr when it does. Raises `CantListen`,
    `SettingsError` where the file of its tokens is none.

    On return who waited was answered. What was registered is forgotten: brokers say it again.
    """
    allow_many_connections()
    set_up(settings.log.format, settings.log.level)

    def begin(server: Server, url: str) -> None:
        # Before anybody hears that it is ready: a signal that came in between would kill it.
        server.listen_to_signals()
        gc.freeze()  # what is imported stays
        gc.set_threshold(*GARBAGE)
        _say_ready(url)

    uvloop.run(serve(settings, begin))
