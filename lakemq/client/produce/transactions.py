"""Transactions: halves, how they end, and the broker's questions about those that haven't ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from lakemq.client.bodies.encoder import Encoder, default_encoder
from lakemq.client.errors import Closed
from lakemq.client.failures import say_failed, wait_of
from lakemq.client.outgoing import Message, check_group, check_topic, is_delayed, parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.batch_send import choose_queues
from lakemq.client.produce.core import Core
from lakemq.client.produce.deliver import Request, is_refused, is_unsure
from lakemq.client.produce.encode import encode
from lakemq.client.produce.traced import spans_of
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.client.view import MessageView
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError

if TYPE_CHECKING:
    from lakemq.client.tracing import Tracing

logger = logging.getLogger(__name__)

POLL_MS = 15_000
"""How long a broker holds the question for checks."""
AGAIN_S = 1.0
"""After a broker that didn't answer."""
REFRESH_S = 30.0
"""How often new brokers are looked for."""
CHECKS_MAX = 32
"""Checks of one broker under way together."""


class Resolution(StrEnum):
    """How a local transaction ended. UNKNOWN: the broker should ask again later."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


class TransactionReceipt(NamedTuple):
    """A message that was sent in a transaction, and the transaction's outcome, as far as the client knows it."""

    transaction_id: str
    message_id: str
    broker: str
    topic: str
    resolution: Resolution


class Half(NamedTuple):
    """A message that is stored and that nobody sees yet."""

    transaction_id: str
    message_id: str
    broker: str
    topic: str

    def ended(self, resolution: Resolution) -> TransactionReceipt:
        """What its sender is told."""
        return TransactionReceipt(*self, resolution)


Check = Callable[[MessageView], Awaitable[Resolution]]


class Transactions:
    """The transactions of one producer of a group. Lives on the producer's event loop."""

    def __init__(self, core: Core, group: str, check: Check, tracing: Tracing | None) -> None:
        self._core = core
        self._tracing = tracing
        self._group = core.heartbeats.group = check_group(group)
        self._check = check
        self._client_id = uuid4().hex
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Answer the checks of the group from now on. Starting twice does no harm."""
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_brokers())

    async def stop(self) -> None:
        """Stop answering checks. Those under way are left to other members of the group."""
        tasks = [*self._asking.values(), *self._answering, *([self._watch] if self._watch is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._asking.clear()

    async def begin(self, topic: str, message: Message, encoder: Encoder = default_encoder) -> Half:
        """Store a half. Raises what keeps it from being stored."""
        batch = Batch(check_topic(topic), 0.0)
        batch.add(*parts_of(message, {}, encoder))
        if is_delayed(batch.fields(0)):
            raise InvalidRequest("a message of a transaction can't be delayed as well")
        with spans_of(self._tracing, batch):
            return await self._store(batch)

    async def _store(self, batch: Batch) -> Half:
        topic = batch.topic
        queues = await choose_queues(self._core, batch)
        encoded = encode(batch, None, True, self._core.options.compression)
        request = Request(
            topic=topic,
            target=routes.BEGIN.at(topic),
            pieces=encoded.pieces,
            content_type=encoded.content_type,
            params={"producer_group": self._group, **self._core.ack_params()},
            headers=encoded.headers,
            broker=next((queue.broker for queue in queues), None),
        )
        delivered = await self._core.deliverer.deliver(request)
        entry = delivered.json()["transactions"][0]
        return Half(entry["transaction_id"], entry["message_id"], delivered.broker, topic)

    async def resolve(self, broker: str, transaction_id: str, resolution: Resolution) -> None:
        """Say how a transaction ends. Raises `TransactionResolved` where it ended the other way, and
        `Unreachable`, or what the broker answered, when it can't be told: then it will ask."""
        content = {"producer_group": self._group, "resolution": resolution.value}
        target = routes.RESOLVE.at(transaction_id)
        params = self._core.ack_params()
        patience = self._core.options.patience
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience.timeout_s
        wait_s = 0.1
        while True:
            try:
                primary = self._core.cluster.primary(broker)
                await primary.send(target, content, params=params, timeout_s=patience.attempt_s)
            except LakemqError as error:
                # The same resolution again is fine, so whatever happened to the first may be forgotten.
                wait_s = wait_of(error, wait_s)
                if not (is_refused(error) or is_unsure(error)) or loop.time() + wait_s > deadline_s:
                    raise
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, 1.0)
            else:
                return

    async def tell(self, half: Half, resolution: Resolution) -> None:
        """`resolve`, but a broker that can't be told now, however often it was tried, will ask later."""
        try:
            await self.resolve(half.broker, half.transaction_id, resolution)
        except LakemqError as error:
            unsent = is_refused(error) or is_unsure(error) or isinstance(error, Closed)
            if not unsent and resolution is not Resolution.UNKNOWN:  # which says nothing that could be wrong
                raise
            logger.warning("could not report the outcome of transaction %s: %s", half.transaction_id, error)

    async def _watch_brokers(self) -> None:
        while True:
            wait_s = REFRESH_S
            try:
                names = {broker.name for broker in await self._core.cluster.brokers()}
                for name in names - self._asking.keys():
                    self._asking[name] = asyncio.create_task(self._ask(name))
                for name in self._asking.keys() - names:
                    self._asking.pop(name).cancel()  # it is no more
            except Exception as error:  # noqa: BLE001  it is logged, and nobody else goes on asking
                say_failed(logger, error, f"no broker to ask for checks of group {self._group}")
                wait_s = AGAIN_S
            await asyncio.sleep(wait_s)

    async def _ask(self, broker: str) -> None:
        """Receive the checks of one broker, and have them answered."""
        target = routes.CHECKS.at(self._group)
        params = {"client_id": self._client_id, "wait_ms": POLL_MS}
        room = asyncio.Semaphore(CHECKS_MAX)
        while True:
            try:
                primary = self._core.cluster.primary(broker)
                answer = await primary.get(target, params, timeout_s=POLL_MS / 1000 + ANSWER_TIMEOUT_S)
                checks = [(str(each["transaction_id"]), MessageView.of(each["message"])) for each in answer["checks"]]
            except Exception as error:  # noqa: BLE001  it is logged: also an answer that is none
                what = f"the checks of group {self._group} at {broker} can't be had now"
                say_failed(logger, error, what, logging.DEBUG)
                await asyncio.sleep(wait_of(error, AGAIN_S))
                continue
            for transaction_id, message in checks:
                await room.acquire()
                task = asyncio.create_task(self._answer(broker, transaction_id, message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
                task.add_done_callback(lambda _: room.release())

    async def _answer(self, broker: str, transaction_id: str, message: MessageView) -> None:
        try:
            resolution = Resolution(await self._check(message))
        except asyncio.CancelledError:
            raise
        except BaseException:  # the listener's own, `SystemExit` too: the broker asks again
            logger.exception("checking transaction %s failed", transaction_id)
            resolution = Resolution.UNKNOWN
        try:
            await self.resolve(broker, transaction_id, resolution)
        except LakemqError as error:
            logger.warning("transaction %s could not be resolved: %s", transaction_id, error)
