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
    """Receives messages of any queue for a group. Each is invisible to the group's others until it is
    acknowledged, or its time is over: then it is handed out again, with `reconsume_times` one higher.

    Options: `SimpleOptions`. Use it as a context manager, or `close` it. Threads may share it. With the option
    `topic`, `for message in consumer` gets message after message, until it is closed.
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
        """Messages of a topic; waits for the first. Empty when none came in time.

        They are this caller's for `invisible_s`; `ack` those that are done. All receives of a group and
        topic should filter alike. Raises `TopicNotFound`, `InvalidFilter`, `FlowControl` when too many
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
        """Message after message of a topic, until the consumer is closed, or nothing has come for `idle_s`.

        What isn't given is as the consumer's options say. `max_messages`: so many are received at a time. One whose
        time is over before its turn is left out, as it comes again. What may pass is tried again, with a warning in
        the log, once something was answered; all else is raised, as `receive` does.
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
        """These are done; twice is fine. Of one message: raises `ReceiptExpired` when its time was over, as it is
        handed out again. Of a list: the status of each, in its order."""
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
        """These could not be processed: the group gets them again, after a delay. Of one message: raises
        `ReceiptExpired` when it was acknowledged or its time was over. Of a list: the status of each, in its order.

        `delay_level` 0: the broker chooses one that grows with each time; < 0: straight to the dead letters. `delay`:
        the first of RocketMQ's levels that is no shorter, in its place. `reason`: why, as a text or an error, of which
        class and text are kept with the messages.
        """
        return self._loop.run(self._consumer.nack(messages, delay_level, reason, delay=delay))

    def change_invisible(self, message: MessageView, invisible_s: Seconds) -> None:
        """Have a message invisible for so long from now on; 0: it is handed out again at once. The
        message has its new receipt then. Raises `ReceiptExpired` when its time was over."""
        self._loop.run(self._consumer.change_invisible(message, invisible_s))

    def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Answer a message whose producer waits for a reply (`Producer.request`). Raises `InvalidRequest`
        when it is no request, and `RequestNotFound` when nobody waits any more."""
        self._loop.run(self._consumer.reply(message, body, **fields))

    def close(self) -> None:
        """Close the connections. What is out and not acknowledged comes again."""
        self._loop.run(self._consumer.close())
