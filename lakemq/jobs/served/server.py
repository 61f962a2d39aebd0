"""The server of `POST /v1/sql`, and of questions about the jobs: a thread of their process, with a loop of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from threading import Thread

from pyspark.sql import SparkSession

from lakemq.contract.grammar import Grammar
from lakemq.contract.jobs_routes import ALL as OF_JOBS
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import CATALOG, STATEMENT
from lakemq.jobs.served.handler import SqlHandler
from lakemq.jobs.served.jobs_handler import Control, JobsHandler
from lakemq.settings import SqlHttp
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.counters import WebCounters
from lakemq.web.front import Front
from lakemq.web.guard import Guard
from lakemq.web.listen import listen, url_of
from lakemq.web.protocol import make_connection_class
from lakemq.web.request import Handler
from lakemq.web.server import Server, make_config
from lakemq.web.tls import Tls

logger = logging.getLogger(__name__)

STOP_S_MAX = 30.0


class SqlServer:
    """Listens from the beginning on, and serves from `start` until `stop`. Raises `CantListen`."""

    def __init__(
        self,
        spark: SparkSession,
        addresses: Callable[[], str],
        limits: SqlHttp,
        tls: Tls | None = None,
        control: Control | None = None,
    ) -> None:
        """`addresses`: of the brokers that say who may what, with commas between. `tls`: by which it is spoken to.
        `control`: the jobs that it is asked about; None: about none."""
        self._limits, self._tls = limits, tls
        self._listener = listen(limits.host, limits.port)
        self._handler = SqlHandler(spark, addresses, limits)
        self._handlers: dict[Route, Handler] = {STATEMENT: self._handler, CATALOG: self._handler.tables}
        if control is not None:
            self._handlers |= JobsHandler(self._handler, control).handlers
        self.url = limits.advertise or url_of(self._listener, tls is not None)
        """Where others find it."""
        self._server = self._make_server(self._listener)
        self._thread = Thread(target=self._run, name="sql server", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()
        logger.info("POST /v1/sql is answered at %s", self.url)

    def stop(self) -> None:
        """What is under way is cancelled, who waits is answered."""
        self._server.stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        self._listener.close()

    def _make_server(self, listener: socket.socket) -> Server:
        counters = WebCounters()
        grammar = Grammar(route for route in (STATEMENT, CATALOG, *OF_JOBS) if route in self._handlers)
        front = Front(grammar, self._handlers, None, self._limits.request_bytes_max, counters.problem)
        rules = ConnectionRules(self._limits, counters)
        guard = Guard("sql_http", self._limits, listener.getsockname()[1])
        config = make_config(front, make_connection_class(rules, guard), self._limits.stop_grace_ms, self._tls)
        return Server(config, self._handler.close)

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve_on(self._listener, self._limits, self._tls))
        except Exception:
            logger.exception("the server of POST /v1/sql has failed; the jobs continue without it")
        finally:
            self._handler.close()
            self._handler.end()
