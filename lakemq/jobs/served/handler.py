"""What answers `POST /v1/sql`: who asks, what that one may, a place, and the rows, or that the time is over."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from lakemq.contract.sql_routes import CHANGES
from lakemq.jobs.errors import BrokerUnavailable, NotServed
from lakemq.jobs.served.answer import Wanted, answer_of, parse_wanted, tables_answer
from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.catalog import Catalog, Table
from lakemq.jobs.served.in_short import in_short
from lakemq.jobs.served.places import Places
from lakemq.jobs.served.readable import SERVED
from lakemq.jobs.served.refusals import Refusal, Refusals
from lakemq.jobs.served.statement import MESSAGES, Bounds, Statement
from lakemq.jobs.served.usage import Usage
from lakemq.jobs.served.user_connections import UserConnections
from lakemq.jobs.served.who import Asker, Who
from lakemq.jobs.sql.text import check_text
from lakemq.model.errors import (
    Busy,
    Forbidden,
    InvalidRequest,
    LakemqError,
    RequestTimeout,
    Unauthenticated,
)
from lakemq.model.forwarded import is_forwarded
from lakemq.model.network import network_of
from lakemq.model.noted import Sieve
from lakemq.settings import SqlHttp
from lakemq.web.asgi import Scope, client_of, read_body, send_answer
from lakemq.web.gone import client_gone
from lakemq.web.problems import Answer
from lakemq.web.request import HttpRequest
from lakemq.web.request_id import about, request_id_of
from lakemq.web.seat import SEAT, Seat

T = TypeVar("T")

logger = logging.getLogger(__name__)

ASKING_MAX = 4
"""So many threads ask brokers at once."""


@dataclass(eq=False)
class _Work:
    """A statement on its way: it may be cancelled before it has begun."""

    cancelled: bool = False
    statement: Statement | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.statement is not None:
            self.statement.cancel()


class SqlHandler:
    """That of one server. Nothing of Spark runs on its loop."""

    def __init__(self, spark: SparkSession, addresses: Callable[[], str], limits: SqlHttp) -> None:
        self._spark = spark
        self._limits = limits
        self._who = Who(addresses)
        self._brokers = Brokers()
        self._sieve = Sieve[str]()
        self._usage, self._refusals = Usage(self._brokers), Refusals(self._brokers, addresses)
        self._places, self._connections = Places(limits), UserConnections()
        # Py4J keeps a connection, and Java a thread, for each thread that ever asked: so they are few, and stay.
        self._running = ThreadPoolExecutor(limits.statements_max, "sql")
        self._asking = ThreadPoolExecutor(ASKING_MAX, "sql who")
        self._cancelling = ThreadPoolExecutor(1, "sql cancel")
        # A thread of its own: whoever has statements under way sees the tables all the same.
        self._catalog, self._describing = Catalog(spark), ThreadPoolExecutor(1, "sql tables")
        self._works: set[_Work] = set()

    async def __call__(self, request: HttpRequest) -> None:
        """Answers one request. Raises `LakemqError`."""
        scope = request.scope
        asked_by, statement = "", ""
        try:
            asker = await self._known(scope)
            asked_by = asker.name
            body = await read_body(request.receive, self._limits.request_bytes_max)
            await self._take(scope, asker, len(body))
            wanted = parse_wanted(body, self._limits)
            statement = wanted.statement[: self._limits.statement_characters_max]
            check_text(wanted.statement, self._limits.statement_characters_max)
            answer = await self._answer(asker, wanted, client_gone(scope))
            if answer is not None:
                await self.ask(self._usage.took, asker, len(answer.body))
        except (Forbidden, Unauthenticated, NotServed) as error:
            self._refused(scope, asked_by, in_short(statement) if statement else "", error)
            raise
        if answer is not None:
            await send_answer(request.send, answer)

    async def tables(self, request: HttpRequest) -> None:
        """Answers which tables one may ask for, and how much. Raises `LakemqError`."""
        scope = request.scope
        try:
            asker = await self.admit(request, 0)
        except (Forbidden, Unauthenticated) as error:
            self._refused(scope, "", "", error)
            raise
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._describing, self._catalog.tables)
        except RuntimeError:
            raise Busy("the jobs are about to end") from None
        shown = [each for each in found if _may_ask(asker, each)]
        complete = sum(each.topic is None for each in found) == len(SERVED)
        answer = tables_answer(shown, complete, self._limits)
        await self.ask(self._usage.took, asker, len(answer.body))
        await send_answer(request.send, answer)

    def _refused(self, scope: Scope, asked_by: str, what: str, error: LakemqError) -> None:
        source = client_of(scope)
        network = network_of(source)
        kind = asked_by, network, error.detail if asked_by else ""
        noted = self._sieve.note(kind, time.monotonic(), (asked_by, None if asked_by else network))
        if noted is not None:
            said = asked_by or "nobody known", source, error.detail, noted.text
            logger.warning("SQL was refused to %s from %s: %s%s", *said, extra=about(scope))
        self._refusals.add(Refusal(asked_by, source, what, error.detail, request_id_of(scope)))

    async def _known(self, scope: Scope) -> Asker:
        said = _authorization(scope), client_of(scope), is_forwarded(scope["headers"])
        return await self.ask(self._who.asks, *said)

    async def admit(self, request: HttpRequest, size: int) -> Asker:
        """Who asks with so many bytes, where that one's quota has room. Raises `LakemqError`."""
        scope = request.scope
        asker = await self._known(scope)
        await self._take(scope, asker, size)
        return asker

    async def _take(self, scope: Scope, asker: Asker, size: int) -> None:
        """The request counts in the quota of who asks, and its connection too. Raises as `Usage.admit`."""
        seat: Seat = scope[SEAT]
        others = self._connections.enter(asker.name, seat)
        try:
            await self.ask(self._usage.admit, asker, size, request_id_of(scope), others or 0)
        except BaseException:
            if others is not None:  # not all brokers have said that the user may have it
                seat.leave()
            raise

    def refused(self, refusal: Refusal) -> None:
        """Have it audited, soon."""
        self._refusals.add(refusal)

    def audit(self, asker: Asker, of: str, job: str, request_id: str) -> None:
        """Have what a user asks of the jobs written down, before it is done: by the first broker that takes it. Raises
        what that says against it, and `BrokerUnavailable`; then nothing is to be done. For threads."""
        said = {"user": asker.name, "source": asker.source, "of": of, "job": job, "request_id": request_id}
        for number, address in enumerate(asker.addresses, 1):
            try:
                refusal = self._brokers.tell(address, CHANGES.at(), json.dumps(said).encode())
            except BrokerUnavailable:
                if number == len(asker.addresses):
                    raise
                continue
            if refusal is not None:
                raise refusal
            return

    async def ask(self, question: Callable[..., T], *arguments: Any) -> T:
        """What brokers say, or what takes a while, without the loop waiting for it."""
        try:
            asked = asyncio.get_running_loop().run_in_executor(self._asking, question, *arguments)
        except RuntimeError:
            raise Busy("the jobs are about to end") from None
        return await asked

    def close(self) -> None:
        """Ends what is under way."""
        for each in list(self._works):
            each.cancel()
        for pool in (self._running, self._asking, self._cancelling, self._describing):
            pool.shutdown(wait=False, cancel_futures=True)
        self._who.close()

    def end(self) -> None:
        """Tells what is still to be told; that may take some seconds."""
        self._refusals.close()
        self._brokers.close()

    async def _answer(self, asker: Asker, wanted: Wanted, gone: asyncio.Future[None]) -> Answer | None:
        """None: nobody waits for it any more."""
        who, work = asker.name or f"from {asker.source}", _Work()
        self._places.take(who)
        self._works.add(work)

        def ended(_: Future[Answer] | None = None) -> None:  # what is cancelled has its place until its thread is free
            self._works.discard(work)
            self._places.give_back(who)

        try:
            running = self._running.submit(self._run, work, asker, wanted)
        except RuntimeError:
            ended()
            raise Busy("the jobs are about to end") from None

        running.add_done_callback(ended)
        waited = asyncio.wrap_future(running)
        try:
            await asyncio.wait({waited, gone}, timeout=wanted.timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            if waited.done():
                return waited.result()
        finally:
            if not waited.done():
                waited.add_done_callback(_forget)
                self._cancelling.submit(work.cancel)
        if gone.done():
            return None
        raise RequestTimeout(f"the statement took longer than {wanted.timeout_ms} ms; it was cancelled")

    def _run(self, work: _Work, asker: Asker, wanted: Wanted) -> Answer:
        work.statement = statement = Statement(self._spark, wanted.statement)
        if work.cancelled:
            raise RequestTimeout("the statement was cancelled before it began")
        asker.check(statement.parse())
        found = statement.run(asker.sights, Bounds(wanted.rows_max, self._limits.bytes_max))
        return answer_of(found, wanted.format, self._limits.bytes_max)


def _may_ask(asker: Asker, table: Table) -> bool:
    """As statements are held to it (`Statement`)."""
    if table.topic is None:
        return asker.may(table.parts[-1])
    topic = table.topic
    return asker.may(MESSAGES) and all(sight.sees_topic(topic) for sight in asker.sights)


def _forget(waited: asyncio.Future[Answer]) -> None:
    """What becomes of it nobody asks any more."""
    if (
        not waited.cancelled()
        and isinstance(error := waited.exception(), Exception)
        and not isinstance(error, LakemqError)
    ):
        logger.error("a statement failed after its time", exc_info=error)


def _authorization(scope: Scope) -> str | None:
    said = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(said) > 1:
        raise InvalidRequest("there are two headers Authorization")
    return said[0].decode("latin-1") if said else None
