"""The simple consumer for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, Unpack, overload

from lakemq.client.aio.simple_consumer import POLL_S, SimpleOptions
from lakemq.client.aio.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from lakemq.client.consume.ack_status import AckStatus
from lakemq.client.consume.reply import ReplyFields
from lakemq.client.durations import Seconds
from lakemq.client.loop import background
from lakemq.client.view import MessageView


class SimpleConsumer:
    """Receives messages from any queue for a group. Each is invisible to the other members until it is acknowledged, or
    its time has expired: then it is handed out again, with `reconsume_times` increased by one.

    Options: `SimpleOptions`. Use it as a context manager, or `close` it. Threads may share it. With the option `topic`,
    `for message in consumer` receives one message after the other, until it is closed.
    """

    def __init__(self, group: str, **options: Unpack[SimpleOptions]) -> None:
        self._loop = background()
        self._consumer = AsyncSimpleConsumer(group, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def receive(
        self,
        topic: str,
        max_messages: int = 32,
        *,
        wait_s: Seconds = POLL_S,
        invisible_s: Seconds = 30.0,
        tags: str = "*",
        sql: str | None = None,
    ) -> list[MessageView]:
        """Receive messages of a topic, waiting for the first. Empty if none arrived in time.

        They are invisible to others for `invisible_s`; `ack` them once they are processed. All receives of a group and
        topic should use the same filter. Raises `TopicNotFound`, `InvalidFilter`, `FlowControl` if too many messages
        are out, `Unreachable`.
        """
        return self._loop.run(
            self._consumer.receive(topic, max_messages, wait_s=wait_s, invisible_s=invisible_s, tags=tags, sql=sql)
        )

    def __iter__(self) -> Iterator[MessageView]:
        return self.messages()

    def messages(
        self,
        topic: str | None = None,
        *,
        tags: str | None = None,
        sql: str | None = None,
        max_messages: int = 1,
        invisible_s: Seconds | None = None,
        idle_s: Seconds | None = None,
    ) -> Iterator[MessageView]:
        """Iterate over a topic's messages, until the consumer is closed, or no message has arrived for `idle_s`.

        The defaults are the consumer's options. `max_messages`: how many are received at a time. A message whose time
        expires before its turn is left out, because it is delivered again. Once a broker has answered, temporary errors
        are retried, with a warning in the log. All other errors are raised, as in `receive`.
        """
        return self._loop.iterate(
            self._consumer.messages(
                topic, tags=tags, sql=sql, max_messages=max_messages, invisible_s=invisible_s, idle_s=idle_s
            )
        )

    @overload
    def ack(self, messages: MessageView) -> None: ...
    @overload
    def ack(self, messages: Sequence[MessageView]) -> list[AckStatus]: ...
    def ack(self, messages: MessageView | Sequence[MessageView]) -> list[AckStatus] | None:
        """Acknowledge messages. Doing so twice does no harm. For one message: raises `ReceiptExpired` if its time has
        expired, because it is then handed out again. For a list: returns the status of each, in the same order."""
        return self._loop.run(self._consumer.ack(messages))

    @overload
    def nack(
        self,
        messages: MessageView,
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> None: ...
    @overload
    def nack(
        self,
        messages: Sequence[MessageView],
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> list[AckStatus]: ...
    def nack(
        self,
        messages: MessageView | Sequence[MessageView],
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> list[AckStatus] | None:
        """Report messages that could not be processed: the group gets them again, after a delay. For one message:
        raises `ReceiptExpired` if it was acknowledged or its time has expired. For a list: returns the status of each,
        in the same order.

        `delay_level` 0: the broker chooses the delay, which grows with each attempt; < 0: the messages become dead
        letters at once. `delay`, instead: rounded up to the next of RocketMQ's levels. `reason`: a text or an error,
        whose class and text are kept with the messages.
        """
        return self._loop.run(self._consumer.nack(messages, delay_level, reason, delay=delay))

    def change_invisible(self, message: MessageView, invisible_s: Seconds) -> None:
        """Keep a message invisible for this long from now on; 0: it is handed out again at once. The message gets a new
        receipt. Raises `ReceiptExpired` if its time has expired."""
        self._loop.run(self._consumer.change_invisible(message, invisible_s))

    def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        self._loop.run(self._consumer.reply(message, body, **fields))

    def close(self) -> None:
        """Close the connections. Messages that aren't acknowledged are delivered again."""
        self._loop.run(self._consumer.close())
