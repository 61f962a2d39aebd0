"""`Producer` for programs without asyncio: any thread may use it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, Unpack

from lakemq.client.aio.producer import no_room
from lakemq.client.bodies.encoder import default_encoder
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import Closed, SendFailed
from lakemq.client.loop import WRONG_THREAD, background
from lakemq.client.outgoing import MessageFields, SendReceipt, parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.batch_send import send_whole
from lakemq.client.produce.call import call
from lakemq.client.produce.core import Core, receipt_of
from lakemq.client.produce.options import ProducerOptions, core_options
from lakemq.client.produce.selecting import QueueSelector, choice_of, chosen, queues_to_choose
from lakemq.client.routes import Cluster
from lakemq.client.trace_option import tracing_of
from lakemq.client.view import MessageView
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class SendFuture:
    """A message on its way, as `concurrent.futures.Future` has it, but far cheaper."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def done(self) -> bool:
        """Whether it is known what became of the message."""
        return self._batch.outcome is not None

    def result(self, timeout: Seconds | None = None) -> SendReceipt:
        """Wait for the receipt, `timeout` seconds at most. Raises what kept the message from being
        stored, or `TimeoutError`."""
        return receipt_of(self._result(timeout))

    def exception(self, timeout: Seconds | None = None) -> LakemqError | None:
        """Wait for what kept the message from being stored; None when it is stored."""
        result = self._result(timeout)
        return result if isinstance(result, LakemqError) else None

    def _result(self, timeout: Seconds | None) -> SendReceipt | LakemqError:
        if self._batch.outcome is None:
            if background().is_here():
                raise RuntimeError(WRONG_THREAD)
            self._batch.wait(None if timeout is None else to_seconds(timeout, "timeout"))
        return self._batch.result(self._number)

    def add_done_callback(self, callback: Callable[[SendFuture], object]) -> None:
        """Have `callback(self)` called when it is known: by the clients' thread, so it must be quick and
        wait for nothing (`send_async` is fine, and raises `FlowControl` where it would wait); or here and
        now."""
        self._batch.when_ended(callback, self)


class Producer:
    """Sends messages, from any thread. Close it, or use it as a context manager. Options:
    `ProducerOptions`.

    `brokers`: addresses, as a list or with commas between; or `nameservers`, that know them. Without
    either the environment's LAKEMQ_NAMESERVERS, else its LAKEMQ_BROKER, else http://127.0.0.1:8080. What
    was sent is retried, with one idempotency key, so a broker never stores it twice; where several have the
    topic, `duplicates_allowed` says what becomes of it when one doesn't answer. Messages with one ordering
    key keep the order in which one thread sends them.
    """

    def __init__(self, brokers: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._options = core_options(options)
        self._buffer_bytes = self._options.buffer_bytes
        self._loop = background()
        cluster = Cluster(brokers, options.get("routes"), options.get("nameservers"), options.get("token"))
        self._core = Core(cluster, self._options, self._loop.loop, self._loop.call)
        given = options.get("tracing", False)
        self._tracing = tracing_of(given)
        self._encoder = options.get("encoder") or default_encoder

    def send(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> SendReceipt:
        """Send a message and wait until it is stored. Raises what keeps it from being stored.

        `body` is bytes, text, a `Message`, or what the option `encoder` takes; `json`, in its place, any value that
        JSON has.

        It goes to the queue that its `ordering_key` or `queue_id` choose, else to any. `queue` names one of a certain
        broker, and `queue_selector` chooses it: it is called here with the topic's queues and the message, and what it
        raises is raised. A chosen queue is never changed: while its broker is away, the message isn't stored."""
        return self.send_async(topic, body, queue=queue, queue_selector=queue_selector, **fields).result()

    def send_async(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> SendFuture:
        """Send a message; returns as soon as there is room for it.

        Raises `FlowControl` when there is no room within `timeout_s` and one attempt more.
        """
        core = self._core
        if core.buffered >= self._buffer_bytes:
            self._wait_for_room()
        if type(body) is bytes and not fields and queue is queue_selector is self._tracing is None:
            return SendFuture(*core.append_plain(topic, body))
        return SendFuture(*self._append(topic, body, fields, False, queue, queue_selector))

    def send_oneway(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> None:
        """Send a message and never learn what became of it: quick, and it may be lost."""
        if self._core.buffered >= self._buffer_bytes:
            self._wait_for_room()
        self._append(topic, body, fields, True, queue, queue_selector)

    def send_batch(
        self, topic: str, messages: Sequence[object], queue: MessageQueue | None = None
    ) -> list[SendReceipt]:
        """Send messages in one request, which is stored as a whole or not at all, in that queue if one is named; their
        receipts. Each is a `Message`, or a body as `send` takes it.

        Raises `InvalidRequest` for delayed messages, and for ordering keys whose queues lie on several
        brokers.
        """
        return self._loop.run(send_whole(self._core, topic, messages, self._tracing, queue, self._encoder))

    def request(
        self,
        topic: str,
        body: object = None,
        timeout_s: Seconds = 3.0,
        **fields: Unpack[MessageFields],
    ) -> MessageView:
        """Send a message and wait for the reply that a consumer gives to it, `timeout_s` at most.

        Raises `RequestTimeout` when none comes. Not tried again once it may have been stored.
        """
        return self._loop.run(call(self._core, topic, *parts_of(body, fields, self._encoder), timeout_s, self._tracing))

    def flush(self) -> None:
        """Send all that waits, and return when it is known what became of it."""
        self._loop.run(self._core.flush())

    def close(self, timeout_s: Seconds | None = None) -> None:
        """Send all that waits, and end; what isn't stored after `timeout_s` is given up (None: after
        all its retries). Raises `SendFailed` with the messages that weren't stored: of those that failed
        before, the first 1,000 (16 MiB) whose futures nobody asked, not those sent one way. Twice is fine."""
        if self._loop.forked:
            return  # what waits is the parent's
        failures = self._loop.run(self._core.close(None if timeout_s is None else to_seconds(timeout_s, "timeout_s")))
        if failures:
            raise SendFailed(f"{len(failures)} messages could not be sent: {failures[0][1]}", failures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except SendFailed as failed:
            if error is None:
                raise
            logger.warning("while another error ends the producer: %s", failed)

    def _append(
        self,
        topic: str,
        given: object,
        given_fields: MessageFields,
        oneway: bool,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> tuple[Batch, int]:
        body, fields = parts_of(given, given_fields, self._encoder)
        core = self._core
        if queue is not None or selector is not None:
            choice = choice_of(topic, queue, selector, fields)
            queues = core.queues_known(topic, queue) or self._loop.run(queues_to_choose(core, topic))
            return core.append(core.lane_to(chosen(queues, choice, body, fields), fields), body, fields, self._tracing)
        kind = core.lane_of(topic, fields, oneway)
        if kind is None:
            self._loop.run(core.learn(topic))
            kind = core.lane_of(topic, fields, oneway)
            assert kind is not None
        return core.append(kind, body, fields, self._tracing)

    def _wait_for_room(self) -> None:
        core = self._core
        if self._loop.is_here():
            raise no_room(self._buffer_bytes)
        with core.room:
            if not core.room.wait_for(lambda: core.has_room() or core.closed, self._options.room_timeout_s):
                raise no_room(self._buffer_bytes)
        if core.closed:
            raise Closed("the producer is closed")
