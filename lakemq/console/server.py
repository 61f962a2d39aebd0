"""A console's process: listen, serve, stop in order."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import uvloop

from lakemq.console.app import Console
from lakemq.logs import say, set_up
from lakemq.settings import Settings
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.counters import WebCounters
from lakemq.web.guard import Guard
from lakemq.web.listen import allow_many_connections, listen, url_of
from lakemq.web.protocol import make_connection_class
from lakemq.web.server import Server, make_config
from lakemq.web.tls import tls_of


async def serve(settings: Settings, brokers: Sequence[str], begin: Callable[[Server, str], None]) -> None:
    """Serve until the server is told to stop. `begin` gets it, and its URL, just before the first request can be
    answered. Raises `CantListen`, and `SettingsError` where certificates can't be used."""
    limits = settings.console
    tls = tls_of(settings)
    listener = listen(limits.host, limits.port)
    try:
        port = listener.getsockname()[1]
        console = Console(limits, brokers, port, by_tls=tls is not None)
        rules = ConnectionRules(limits, WebCounters())
        connections = make_connection_class(rules, Guard("console", limits, port))
        server = Server(make_config(console, connections, limits.stop_grace_ms, tls), console.stop)
        begin(server, url_of(listener, tls is not None))
        try:
            await server.serve_on(listener, limits, tls)
        finally:
            await console.close()
    finally:
        listener.close()


def run(settings: Settings, brokers: Sequence[str]) -> None:
    """Serve until SIGINT, SIGTERM or the terminal's end, and say on stderr when it does. Raises `CantListen`,
    `SettingsError`. After a restart, users have to sign in again: sessions are only in memory."""
    allow_many_connections()
    set_up(settings.log.format, settings.log.level)

    def begin(server: Server, url: str) -> None:
        # Before anybody hears that it is ready: a signal that came in between would kill it.
        server.listen_to_signals()
        gc.freeze()  # what is imported stays
        say(f"console: listening on {url}")

    uvloop.run(serve(settings, brokers, begin))
