"""`TestApp` for programs without asyncio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from lakemq.client.app.base import check_instead, memory_broker
from lakemq.client.app.memory import MemoryBroker, Nacked, Sent
from lakemq.client.application import App
from lakemq.client.bodies.encoder import Encoder, default_encoder
from lakemq.client.consume.listener import run_listener
from lakemq.client.durations import Seconds
from lakemq.client.outgoing import MessageFields, SendReceipt, parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.selecting import QueueSelector
from lakemq.client.producer import Producer, SendFuture
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue


class MemoryProducer(Producer):
    """A producer whose messages a test looks at."""

    def __init__(self, broker: MemoryBroker, encoder: Encoder) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._broker = broker
        self._encoder = encoder

    def send_async(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> SendFuture:
        """As `Producer.send_async`; queues are not looked at."""
        receipt = self._broker.record(topic, *parts_of(body, fields, self._encoder))
        batch = Batch(topic, 0.0)
        batch.end(lambda _: receipt)
        return SendFuture(batch, 0)

    def send_oneway(
        self,
        topic: str,
        body: object = None,
        *,
        queue: MessageQueue | None = None,
        queue_selector: QueueSelector | None = None,
        **fields: Unpack[MessageFields],
    ) -> None:
        """As `Producer.send_oneway`."""
        self.send_async(topic, body, **fields)

    def send_batch(
        self, topic: str, messages: Sequence[object], queue: MessageQueue | None = None
    ) -> list[SendReceipt]:
        """As `Producer.send_batch`."""
        parts = [parts_of(message, {}, self._encoder) for message in messages]
        return [self._broker.record(topic, *part) for part in parts]

    def request(
        self,
        topic: str,
        body: object = None,
        timeout_s: Seconds = 3.0,
        **fields: Unpack[MessageFields],
    ) -> MessageView:
        """Raises `InvalidRequest`: nobody answers here."""
        raise InvalidRequest("nobody answers requests in a TestApp: test that with lakemq.testing.MemoryBroker")

    def flush(self) -> None:
        """Nothing waits."""

    def close(self, timeout_s: Seconds | None = None) -> None:
        """Nothing is open."""


class TestApp:
    """Calls an application's listeners in memory, for tests: no broker, no threads, and no waiting.

    Within `with TestApp(app) as test`, resources are open and `on_start` has been called; `resources` replace those
    that factories would create. `test.send` delivers a message to the listeners of its topic as a broker and a consumer
    would: the body is encoded and decoded, and a failed message is delivered again until it becomes a dead letter.
    Messages that listeners send are delivered to the application's other listeners. Nothing waits, but messages are
    delivered in the order of their due times: delayed messages and retries follow those that are due before them. Only
    a failed message of an `orderly` listener is delivered again at once. A message for a listener with `sql` raises
    `InvalidRequest`: only a broker evaluates it, such as `lakemq.testing.MemoryBroker`. `store_time` and so on are 0.
    """

    __test__ = False  # pytest would take it for a test by its name

    def __init__(self, app: App, resources: Mapping[Callable[..., Any], Any] | None = None) -> None:
        self._app = app
        self._instead = check_instead(app, resources or {})
        self._broker = memory_broker(app)

    def __enter__(self) -> Self:
        self._app._open(lambda: MemoryProducer(self._broker, self._encoder), self._instead)  # pyright: ignore[reportPrivateUsage]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._app._shut()  # pyright: ignore[reportPrivateUsage]

    def send(self, topic: str, body: object = None, **fields: Unpack[MessageFields]) -> None:
        """Call the listeners with a message, and with all messages that result from it. Returns when none is left.
        Raises `InvalidRequest` if that never ends."""
        self._broker.begin(self._app.state)
        self._broker.store(topic, *parts_of(body, fields, self._encoder))
        while (found := self._broker.next()) is not None:
            plan, message = found
            work, terms = self._broker.work(message)
            handler = self._app._handler(plan)  # pyright: ignore[reportPrivateUsage]
            outcome = run_listener(handler, work, terms)
            self._broker.settle(plan, message, outcome.failed)

    @property
    def acked(self) -> list[MessageView]:
        """The messages that a listener has processed, in order."""
        return self._broker.acked

    @property
    def nacked(self) -> list[Nacked]:
        """Each failure of a listener to process a message, with the reason."""
        return self._broker.nacked

    @property
    def dead_letters(self) -> list[MessageView]:
        """The messages that became dead letters."""
        return self._broker.dead_letters

    @property
    def sent(self) -> list[Sent]:
        """What the application sent, in order."""
        return self._broker.sent

    @property
    def _encoder(self) -> Encoder:
        return self._app.producer_options.get("encoder") or default_encoder
