"""`Producer` for programs with asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self, Unpack

from lakemq.client.bodies.encoder import default_encoder
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import SendFailed
from lakemq.client.outgoing import MessageFields, SendReceipt, parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.batch_send import send_whole
from lakemq.client.produce.call import call
from lakemq.client.produce.core import Core, receipt_of, until_ended
from lakemq.client.produce.lane import LaneKind
from lakemq.client.produce.options import ProducerOptions, core_options
from lakemq.client.produce.selecting import QueueSelector, choice_of, chosen, queues_to_choose
from lakemq.client.routes import Cluster
from lakemq.client.trace_option import tracing_of
from lakemq.client.view import MessageView
from lakemq.model.errors import FlowControl
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class SendFuture:
    """A message that is being sent: await it for its receipt. You needn't await it, and several tasks may."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def done(self) -> bool:
        """Whether the outcome of the message is known."""
        return self._batch.outcome is not None

    def __await__(self) -> Generator[None, None, SendReceipt]:
        if self._batch.outcome is None:
            yield from until_ended(self._batch).__await__()
        return receipt_of(self._batch.result(self._number))


class Producer:
    """Sends messages. It lives on the event loop of its first call; close it there, or use it as an
    asynchronous context manager. Options: `ProducerOptions`.

    `brokers`: addresses, as a list or separated by commas; or `nameservers`, which know the brokers. By default the
    environment's LAKEMQ_NAMESERVERS, else its LAKEMQ_BROKER, else http://127.0.0.1:8080. A send is retried with the
    same idempotency key, so a broker never stores it twice. If several brokers have the topic, `duplicates_allowed`
    says what happens when one doesn't answer. Messages with the same ordering key keep their order.
    """

    def __init__(self, brokers: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._options = core_options(options)
        self._cluster = Cluster(brokers, options.get("routes"), options.get("nameservers"), options.get("token"))
        given = options.get("tracing", False)
        self._tracing = tracing_of(given)
        self._encoder = options.get("encoder") or default_encoder
        self._started: Core | None = None
        self._filled = 0

    @property
    def _core(self) -> Core:
        core = self._started
        if core is None:
            loop = asyncio.get_running_loop()
            core = self._started = Core(
                self._cluster, self._options, loop, lambda pump, lane: loop.call_soon(pump, lane)
            )
        return core

    async def send(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> SendReceipt:
        """Send a message and wait until it is stored. Raises the error if it can't be stored.

        `body` is bytes, text, a `Message`, or anything that the option `encoder` accepts. Use `json` instead for any
        JSON value.

        The message goes to the queue that its `ordering_key` or `queue_id` chooses, otherwise to any queue. `queue`
        names a queue of one broker. `queue_selector` chooses one: it is called in this thread with the topic's queues
        and the message, and its errors are raised here. A chosen queue is never changed: while its broker is away, the
        message isn't stored."""
        return await (await self.send_async(topic, body, queue=queue, queue_selector=queue_selector, **fields))

    async def send_async(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> SendFuture:
        """Send a message, and return as soon as the buffer has room for it. Await the result for the receipt.

        Raises `FlowControl` if there is no room within `timeout_s` plus one attempt.
        """
        core = self._core
        if not core.has_room():
            await self._wait_for_room(core)
        if type(body) is bytes and not fields and queue is queue_selector is self._tracing is None:
            future = SendFuture(*core.append_plain(topic, body))
            if core.filled != self._filled:
                self._filled = core.filled
                await asyncio.sleep(0)  # who sends in a loop never lets the batches go otherwise
            return future
        return SendFuture(*await self._append(core, topic, body, fields, False, queue, queue_selector))

    async def send_oneway(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> None:
        """Send a message without learning its outcome. This is fast, but the message may be lost."""
        core = self._core
        if not core.has_room():
            await self._wait_for_room(core)
        await self._append(core, topic, body, fields, True, queue, queue_selector)

    async def send_batch(
        self, topic: str, messages: Sequence[object], queue: MessageQueue | None = None
    ) -> list[SendReceipt]:
        """Send messages in one request, which is stored as a whole or not at all, and return their receipts. If `queue`
        is given, they are stored there. Each message is a `Message`, or a body as in `send`.

        Raises `InvalidRequest` for delayed messages, and for ordering keys whose queues are on several brokers.
        """
        return await send_whole(self._core, topic, messages, self._tracing, queue, self._encoder)

    async def request(
        self,
        topic: str,
        body: object = None,
        timeout_s: Seconds = 3.0,
        **fields: Unpack[MessageFields],
    ) -> MessageView:
        """Send a message and wait at most `timeout_s` for a consumer's reply.

        Raises `RequestTimeout` if there is none. The request isn't retried once it may have been stored.
        """
        return await call(self._core, topic, *parts_of(body, fields, self._encoder), timeout_s, self._tracing)

    async def flush(self) -> None:
        """Send all waiting messages, and return when the outcome of each is known."""
        await self._core.flush()

    async def close(self, timeout_s: Seconds | None = None) -> None:
        """Send all waiting messages, and end. Messages that aren't stored after `timeout_s` (None: after all their
        retries) are given up. Raises `SendFailed` with the messages that weren't stored. Of those that failed earlier
        it has the first 1,000 (16 MiB) whose futures nobody has awaited, but none that was sent one way. Closing twice
        does no harm."""
        failures = await self._core.close(None if timeout_s is None else to_seconds(timeout_s, "timeout_s"))
        if failures:
            raise SendFailed(f"{len(failures)} messages could not be sent: {failures[0][1]}", failures)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except SendFailed as failed:
            if error is None:
                raise
            logger.warning("while another error ends the producer: %s", failed)

    async def _append(
        self,
        core: Core,
        topic: str,
        given: object,
        given_fields: MessageFields,
        oneway: bool,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> tuple[Batch, int]:
        body, fields = parts_of(given, given_fields, self._encoder)
        if queue is not None or selector is not None:
            choice = choice_of(topic, queue, selector, fields)
            queues = core.queues_known(topic, queue) or await queues_to_choose(core, topic)
            kind: LaneKind | None = core.lane_to(chosen(queues, choice, body, fields), fields)
        else:
            kind = core.lane_of(topic, fields, oneway)
        if kind is None:
            await core.learn(topic)
            kind = core.lane_of(topic, fields, oneway)
            assert kind is not None
        appended = core.append(kind, body, fields, self._tracing)
        if core.filled != self._filled:  # only now: what others append meanwhile comes after this one
            self._filled = core.filled
            await asyncio.sleep(0)
        return appended

    async def _wait_for_room(self, core: Core) -> None:
        try:
            async with asyncio.timeout(self._options.room_timeout_s):
                while not core.has_room() and not core.closed:
                    await core.wait_for_room()
        except TimeoutError:
            raise no_room(self._options.buffer_bytes) from None


def no_room(buffer_bytes: int) -> FlowControl:
    """The error for a message that doesn't fit into the buffer."""
    return FlowControl(f"the producer holds {buffer_bytes} bytes that aren't stored yet (buffer_bytes)")
