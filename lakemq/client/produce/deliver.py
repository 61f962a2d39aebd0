"""One request to whichever broker can take it: retries that never store twice.

A request has one idempotency key, whatever becomes of it. A broker remembers its own keys only. So a
request that may have reached a broker is tried again at that one; only one that certainly was not
stored goes to another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from lakemq.client.errors import Unreachable
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
    StoreUnwritable,
    TopicNotFound,
)
from lakemq.model.latency import LatencyTable

logger = logging.getLogger(__name__)

WAIT_S = 0.1
WAIT_S_MAX = 1.0
LATE_S = 1.0
"""A broker that has not answered for so long is avoided before its answer, or its failure, is there."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a request is tried.

    `retries` count attempts that may have been carried out, or that flow control refused; attempts that
    no broker was there for, or none with time, are repeated until `timeout_s` is over. `attempt_s` bounds one attempt;
    there is always one, however long the request has waited before.
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
                if broker is None:
                    await asyncio.sleep(attempts.wait_s(_now_s()))

    async def _attempt(self, broker: str, request: Request, headers: dict[str, str], attempts: _Attempts) -> Answer:
        transport = await self._cluster.transport(broker)
        begin = _now_s()
        watch = None
        if not request.wait_s:
            watch = asyncio.get_running_loop().call_later(LATE_S, self._is_late, broker, request)
        try:
            answer = await transport.request(
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
            self._latency.note(broker, (_now_s() - begin) * 1000, _now_s() * 1000)
        return answer

    def _is_late(self, broker: str, request: Request) -> None:
        """An answer has been waited for long enough to avoid who is to give it; when another broker is
        well, the request no longer holds up those behind it. With none that is, nothing would be gained."""
        now_ms = _now_s() * 1000
        if not self._latency.is_avoided(broker, now_ms):
            self._latency.note(broker, LATE_S * 1000, now_ms)
        self._say_late(request)

    def _say_late(self, request: Request) -> None:
        if request.late is None or request.broker is not None:
            return
        now_ms = _now_s() * 1000
        known = self._cluster.known_brokers(request.topic)
        if any(not self._latency.is_avoided(broker, now_ms) for broker in known):
            request.late()

    async def _pick(self, request: Request, attempts: _Attempts) -> str:
        bound = attempts.unsure_of or request.broker
        broker = bound or self._latency.pick(await self._brokers_in_time(request, attempts), _now_s() * 1000)
        if attempts.failed and self._latency.is_avoided(broker, _now_s() * 1000):
            await asyncio.sleep(attempts.wait_s(_now_s()))
        return broker

    async def _brokers_in_time(self, request: Request, attempts: _Attempts) -> Sequence[str]:
        try:
            async with asyncio.timeout(attempts.attempt_s(_now_s())):
                return await self.brokers_of(request.topic)
        except TimeoutError:
            raise Unreachable("the brokers don't say which queues there are", sent=False) from None

    async def brokers_of(self, topic: str) -> Sequence[str]:
        """The brokers that have the topic; all of them when none has: they may make it."""
        try:
            return sorted({queue.broker for queue in await self._cluster.queues(topic)})
        except TopicNotFound:
            return [broker.name for broker in await self._cluster.brokers()]

    def _note(self, broker: str | None, topic: str, error: LakemqError) -> None:
        if broker is not None and (is_refused(error) or is_unsure(error)):
            self._latency.note_failure(broker, _now_s() * 1000)
        elif error.code in ("topic_not_found", "queue_not_found"):
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

    def may_go_on(self, error: LakemqError, broker: str | None, now_s: float) -> bool:
        """Take note of a failure; whether to try again."""
        self.failed = True
        if is_unsure(error):
            self._unsure = True
            if not self._request.anywhere:
                self.unsure_of = broker
            if not self._request.once:
                return False
            self._counted += 1
        elif isinstance(error, FlowControl):
            self._counted += 1
        elif not is_refused(error):
            return False
        return self._counted <= self._patience.retries and now_s < self._deadline_s

    def last_error(self, error: LakemqError) -> LakemqError:
        """What is told when nothing more is tried."""
        if self._unsure and isinstance(error, Unreachable):
            return Unreachable(f"{error.detail} (it may have been stored)", sent=True)
        return error


def _now_s() -> float:
    return asyncio.get_running_loop().time()
