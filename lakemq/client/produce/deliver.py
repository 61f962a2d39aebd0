"""One request to whichever broker can take it: retries that a broker never stores twice.

A request has one idempotency key, whatever becomes of it. A broker remembers its own keys only. So a
request that may have reached a broker goes to another only if it is one of those that may be stored
twice: `anywhere`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from lakemq.client.errors import Unreachable
from lakemq.client.prober import Prober
from lakemq.client.produce.topic_maker import TopicMaker
from lakemq.client.routes import Cluster
from lakemq.client.transport import Answer, Params, Piece
from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.model.errors import (
    Busy,
    FlowControl,
    InvalidArrow,
    InvalidRequest,
    LakemqError,
    OverQuota,
    ReadOnlyTopic,
    StoreUnwritable,
    TopicNotFound,
)
from lakemq.model.latency import LatencyTable
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

WAIT_S = 0.1
WAIT_S_MAX = 1.0
LATE_S = 1.0
"""A broker that has not answered for so long is avoided before its answer, or its failure, is there."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a request is tried.

    `retries` count attempts that may have been carried out, or that flow control refused; attempts that
    no broker was there for, or none with time, or that a user's quota held up, are repeated until `timeout_s` is over.
    `attempt_s` bounds one attempt; there is always one, however long the request has waited before.
    """

    retries: int
    timeout_s: float
    attempt_s: float


@dataclass(slots=True)
class Request:
    """What is to be stored. `broker`: the only one that may store it; `anywhere`: even what may have
    been stored goes to another broker, and so may be stored twice; `once`: it carries an idempotency
    key, and without one what may have been stored is not tried again. `wait_s`: so much longer than
    others may it take, and its latency says nothing of the broker. `begun_s`: since when it waits to be
    sent, by the event loop's clock; None: it didn't. `late`: called when its broker is late while another
    is well; more than once, maybe."""

    topic: str
    target: Target
    pieces: list[Piece]
    content_type: str = JSON
    params: Params = field(default_factory=dict[str, str | int])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    broker: str | None = None
    anywhere: bool = False
    once: bool = True
    wait_s: float = 0.0
    begun_s: float | None = None
    late: Callable[[], object] | None = None


class Delivered(NamedTuple):
    """Who carried the request out, and what it answered."""

    broker: str
    answer: Answer

    def json(self) -> Any:
        """The answer as JSON."""
        return self.answer.json()


def is_refused(error: LakemqError) -> bool:
    """Whether the same request may pass a little later, here or elsewhere, and certainly was not
    carried out now."""
    if isinstance(error, Unreachable):
        return not error.sent
    return isinstance(error, Busy | FlowControl)


def is_unsure(error: LakemqError) -> bool:
    """Whether nobody knows if the request was carried out: there was no answer, or one that says that
    storing failed in the middle."""
    unsure = (isinstance(error, Unreachable) and error.sent) or isinstance(error, StoreUnwritable)
    return unsure or error.code == "internal"


class Deliverer:
    """Sends requests to the brokers of one cluster. Lives on one event loop."""

    def __init__(self, cluster: Cluster, patience: Patience) -> None:
        self._cluster = cluster
        self._patience = patience
        self._latency = LatencyTable()
        self._prober = Prober(cluster, self._latency.forgive)
        self._maker = TopicMaker(cluster)

    async def close(self) -> None:
        """Nothing is to be delivered any more."""
        await self._prober.close()

    async def deliver(self, request: Request) -> Delivered:
        """Have it carried out. Raises the error of the last attempt: `Unreachable` with `sent` when it
        may have been carried out all the same."""
        attempts = _Attempts(self._patience, request, _now_s())
        headers = {"Idempotency-Key": f'"{uuid4().hex}"', **request.headers} if request.once else request.headers
        while True:
            broker: str | None = None
            try:
                broker = await self._pick(request, attempts)
                return Delivered(broker, await self._attempt(broker, request, headers, attempts))
            except LakemqError as error:
                self._note(broker, request.topic, error)
                if isinstance(error, InvalidArrow):  # whoever sends messages has never heard of Arrow
                    raise InvalidRequest(error.detail) from error
                if not attempts.may_go_on(error, broker, _now_s()):
                    raise attempts.last_error(error) from error
                if attempts.unsure_of is not None:
                    self._say_late(request)
                logger.debug("sending to %s failed, trying again: %s", request.topic, error)
                if isinstance(error, OverQuota):
                    await asyncio.sleep(error.retry_after_s)
                elif broker is None:
                    await asyncio.sleep(attempts.wait_s(_now_s()))

    async def _attempt(self, broker: str, request: Request, headers: dict[str, str], attempts: _Attempts) -> Answer:
        primary = self._cluster.primary(broker)
        begin = _now_s()
        watch = None
        if not request.wait_s:
            watch = asyncio.get_running_loop().call_later(LATE_S, self._is_late, broker, request)
        try:
            answer = await primary.request(
                request.target,
                params=request.params,
                body=request.pieces,
                content_type=request.content_type,
                headers=headers,
                timeout_s=attempts.attempt_s(begin) + request.wait_s,
            )
        finally:
            if watch is not None:
                watch.cancel()
        if not request.wait_s:
            self._note_answer(broker, begin)
        return answer

    def _note_answer(self, broker: str, begin_s: float) -> None:
        now_ms = _now_s() * 1000
        self._latency.note(broker, now_ms - begin_s * 1000, now_ms)
        if not self._latency.is_avoided(broker, now_ms):
            self._prober.is_well(broker)

    def _is_late(self, broker: str, request: Request) -> None:
        """An answer has been waited for long enough to avoid who is to give it; when another broker is
        well, the request no longer holds up those behind it. With none that is, nothing would be gained."""
        now_ms = _now_s() * 1000
        if not self._latency.is_avoided(broker, now_ms):
            self._latency.note(broker, LATE_S * 1000, now_ms)
            if len(self._cluster.known_writers(request.topic)) > 1:
                self._prober.is_late(broker)
        self._say_late(request)

    def _say_late(self, request: Request) -> None:
        if request.late is None or request.broker is not None:
            return
        now_ms = _now_s() * 1000
        known = self._cluster.known_writers(request.topic)
        if any(not self._latency.is_avoided(broker, now_ms) for broker in known):
            request.late()

    async def _pick(self, request: Request, attempts: _Attempts) -> str:
        broker = attempts.unsure_of or request.broker
        if broker is None:
            brokers = await self._brokers_in_time(request, attempts)
            broker = self._latency.pick(attempts.without_read_only(brokers), _now_s() * 1000)
        if attempts.failed and self._latency.is_avoided(broker, _now_s() * 1000):
            await asyncio.sleep(attempts.wait_s(_now_s()))
        return broker

    async def _brokers_in_time(self, request: Request, attempts: _Attempts) -> Sequence[str]:
        try:
            async with asyncio.timeout(attempts.attempt_s(_now_s())):
                return await self._brokers_of(request.topic)
        except TimeoutError:
            raise Unreachable("the brokers don't say which queues there are", sent=False) from None

    async def _brokers_of(self, topic: str) -> Sequence[str]:
        """The brokers that take the topic's messages; where none has it, those that have made it now, or else
        all of them: one may make it with its first message."""
        try:
            return (await self._cluster.route(topic)).writers
        except TopicNotFound:
            made = await self._maker.make(topic)
            return made.writers if made is not None else [broker.name for broker in await self._cluster.brokers()]

    async def queues_of(self, topic: str, make: bool = False) -> list[MessageQueue]:
        """The topic's queues that are written, made where no broker of several has it, and with `make` where a lone one
        hasn't; none when it doesn't exist. Raises `Unreachable`."""
        try:
            return (await self._cluster.route(topic)).writable
        except TopicNotFound:
            made = await self._maker.make(topic, alone=make)
            return made.writable if made is not None else []

    async def has_choice(self, topic: str) -> bool:
        """Whether several brokers take the topic's messages, as far as it can be found out now."""
        known = self._cluster.known_writers(topic)
        if not known:
            try:
                async with asyncio.timeout(self._patience.attempt_s):
                    if len(await self._cluster.brokers()) > 1:
                        known = await self._brokers_of(topic)
            except (LakemqError, TimeoutError):
                return False
        return len(known) > 1

    def _note(self, broker: str | None, topic: str, error: LakemqError) -> None:
        if isinstance(error, OverQuota):
            return  # it is well, and others hold the user up too
        if broker is not None and (is_refused(error) or is_unsure(error)):
            self._latency.note_failure(broker, _now_s() * 1000)
            if len(self._cluster.known_writers(topic)) > 1:
                self._prober.failed(broker)
        elif error.code in ("topic_not_found", "queue_not_found", "read_only_topic"):
            self._cluster.forget(topic)


class _Attempts:
    """The attempts of one request so far, and whether there is another."""

    def __init__(self, patience: Patience, request: Request, now_s: float) -> None:
        self._patience = patience
        self._request = request
        self._deadline_s = (now_s if request.begun_s is None else request.begun_s) + patience.timeout_s
        self._counted = 0
        self._wait_s = WAIT_S
        self.failed = False
        self.unsure_of: str | None = None
        self._unsure = False
        self._read_only: dict[str, LakemqError] = {}

    def attempt_s(self, now_s: float) -> float:
        """How long the next attempt may take."""
        if not self.failed:
            return self._patience.attempt_s
        return max(min(self._patience.attempt_s, self._deadline_s - now_s), 0.001)

    def wait_s(self, now_s: float) -> float:
        """How long to wait for a broker that failed: longer each time."""
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, WAIT_S_MAX)
        return max(min(wait_s, self._deadline_s - now_s), 0.0)

    def without_read_only(self, brokers: Sequence[str]) -> Sequence[str]:
        """Those that haven't said that the topic may not be written there; raises what they said when all have."""
        if not self._read_only:
            return brokers
        left = [broker for broker in brokers if broker not in self._read_only]
        if not left:
            raise next(iter(self._read_only.values()))
        return left

    def may_go_on(self, error: LakemqError, broker: str | None, now_s: float) -> bool:
        """Take note of a failure; whether to try again."""
        self.failed = True
        if isinstance(error, OverQuota):
            return now_s + error.retry_after_s < self._deadline_s
        if is_unsure(error):
            self._unsure = True
            if not self._request.anywhere:
                self.unsure_of = broker
            if not self._request.once:
                return False
            self._counted += 1
        elif isinstance(error, FlowControl):
            self._counted += 1
        elif isinstance(error, ReadOnlyTopic):
            if broker is None or self._request.broker is not None or self.unsure_of is not None:
                return False
            self._read_only[broker] = error
        elif not is_refused(error) or (broker is None and error.lasting):
            return False
        return self._counted <= self._patience.retries and now_s < self._deadline_s

    def last_error(self, error: LakemqError) -> LakemqError:
        """What is told when nothing more is tried. What another broker has against it says nothing of the one that
        may have stored it."""
        elsewhere = self._request.anywhere and not is_unsure(error)
        if self._unsure and (isinstance(error, Unreachable) or elsewhere):
            return Unreachable(f"{error.detail} (it may have been stored)", sent=True)
        return error


def _now_s() -> float:
    return asyncio.get_running_loop().time()
