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
from lakemq.client.held import INTERRUPTED, check_held, watch
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
    """A message that is being sent: like `concurrent.futures.Future`, but far cheaper."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def done(self) -> bool:
        """Whether the outcome of the message is known."""
        return self._batch.outcome is not None

    def result(self, timeout: Seconds | None = None) -> SendReceipt:
        """Wait for the receipt, at most `timeout` seconds. Raises the error that kept the message from being stored, or
        `TimeoutError`."""
        return receipt_of(self._result(timeout))

    def exception(self, timeout: Seconds | None = None) -> LakemqError | None:
        """Wait for the error that kept the message from being stored; None if it is stored."""
        result = self._result(timeout)
        return result if isinstance(result, LakemqError) else None

    def _result(self, timeout: Seconds | None) -> SendReceipt | LakemqError:
        if self._batch.outcome is None:
            if background().is_here():
                raise RuntimeError(WRONG_THREAD)
            self._batch.wait(None if timeout is None else to_seconds(timeout, "timeout"))
        return self._batch.result(self._number)

    def add_done_callback(self, callback: Callable[[SendFuture], object]) -> None:
        """Call `callback(self)` when the outcome is known, at once if it already is. Otherwise it is called in the
        clients' thread, so it must be quick and must not block (`send_async` is fine, and raises `FlowControl` where it
        would wait)."""
        self._batch.when_ended(callback, self)


class Producer:
    """Sends messages. Threads may share it. Close it, or use it as a context manager. Options: `ProducerOptions`.

    `brokers`: addresses, as a list or separated by commas; or `nameservers`, which know the brokers. By default the
    environment's LAKEMQ_NAMESERVERS, else its LAKEMQ_BROKER, else http://127.0.0.1:8080. A send is retried with the
    same idempotency key, so a broker never stores it twice. If several brokers have the topic, `duplicates_allowed`
    says what happens when one doesn't answer. Messages with the same ordering key keep the order in which a thread
    sends them.
    """

    def __init__(self, brokers: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._options = core_options(options)
        self._buffer_bytes = self._options.buffer_bytes
        self._loop = background()
        cluster = Cluster(brokers, options.get("routes"), options.get("nameservers"), options.get("token"))
        self._core = Core(cluster, self._options, self._loop.loop, self._loop.call)
        watch(self._core.lock)
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
        """Send a message and wait until it is stored. Raises the error if it can't be stored.

        `body` is bytes, text, a `Message`, or anything that the option `encoder` accepts. Use `json` instead for any
        JSON value.

        The message goes to the queue that its `ordering_key` or `queue_id` chooses, otherwise to any queue. `queue`
        names a queue of one broker. `queue_selector` chooses one: it is called in this thread with the topic's queues
        and the message, and its errors are raised here. A chosen queue is never changed: while its broker is away, the
        message isn't stored."""
        check_held()  # before it is sent: its result could not be waited for
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
        """Send a message, and return as soon as the buffer has room for it.

        Raises `FlowControl` if there is no room within `timeout_s` plus one attempt.
        """
        core = self._core
        if core.is_held():
            raise RuntimeError(INTERRUPTED)
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
        """Send a message without learning its outcome. This is fast, but the message may be lost."""
        if self._core.is_held():
            raise RuntimeError(INTERRUPTED)
        if self._core.buffered >= self._buffer_bytes:
            self._wait_for_room()
        self._append(topic, body, fields, True, queue, queue_selector)

    def send_batch(
        self, topic: str, messages: Sequence[object], queue: MessageQueue | None = None
    ) -> list[SendReceipt]:
        """Send messages in one request, which is stored as a whole or not at all, and return their receipts. If `queue`
        is given, they are stored there. Each message is a `Message`, or a body as in `send`.

        Raises `InvalidRequest` for delayed messages, and for ordering keys whose queues are on several brokers.
        """
        return self._loop.run(send_whole(self._core, topic, messages, self._tracing, queue, self._encoder))

    def request(
        self,
        topic: str,
        body: object = None,
        timeout_s: Seconds = 3.0,
        **fields: Unpack[MessageFields],
    ) -> MessageView:
        """Send a message and wait at most `timeout_s` for a consumer's reply.

        Raises `RequestTimeout` if there is none. The request isn't retried once it may have been stored.
        """
        return self._loop.run(call(self._core, topic, *parts_of(body, fields, self._encoder), timeout_s, self._tracing))

    def flush(self) -> None:
        """Send all waiting messages, and return when the outcome of each is known. In a signal handler: see `close`."""
        self._loop.run(self._core.flush())

    def close(self, timeout_s: Seconds | None = None) -> None:
        """Send all waiting messages, and end. Messages that aren't stored after `timeout_s` (None: after all their
        retries) are given up. Raises `SendFailed` with the messages that weren't stored. Of those that failed earlier
        it has the first 1,000 (16 MiB) whose futures nobody has read, but none that was sent one way. Closing twice
        does no harm.

        In a signal handler it raises `RuntimeError` if the signal has interrupted a call of this producer at the wrong
        moment: raise `SystemExit` there instead, and close the producer where that ends the program."""
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
        check_held()
        with core.room:
            if not core.room.wait_for(lambda: core.has_room() or core.closed, self._options.room_timeout_s):
                raise no_room(self._buffer_bytes)
        if core.closed:
            raise Closed("the producer is closed")
