"""The simple consumer for programs without asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from lakemq.client.aio.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from lakemq.client.aio.simple_consumer import SimpleOptions
from lakemq.client.consume.reply import ReplyFields
from lakemq.client.loop import background
from lakemq.client.view import MessageView


class SimpleConsumer:
    """Receives messages of any queue for a group. Each is invisible to the group's others until it is
    acknowledged, or its time is over: then it is handed out again, with `reconsume_times` one higher.

    Options: `SimpleOptions`. Use it as a context manager, or `close` it. Threads may share it.
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
        wait_s: float = 15.0,
        invisible_s: float = 30.0,
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

    def ack(self, messages: MessageView | Sequence[MessageView]) -> list[str]:
        """These are done. Of each: `ok`, also when that was said before, or `receipt_expired`: its time
        was over, and the message is handed out again."""
        return self._loop.run(self._consumer.ack(messages))

    def nack(
        self,
        messages: MessageView | Sequence[MessageView],
        delay_level: int = 0,
        reason: str | BaseException | None = None,
    ) -> list[str]:
        """These could not be processed: the group gets them again, after a delay. Of each: `ok`, `duplicate`
        when that was said before, or `receipt_expired` when it was acknowledged or its time was over.

        `delay_level` 0: the broker chooses one that grows with each time; < 0: straight to the dead letters.
        `reason`: why, as a text or an error, of which class and text are kept with the messages.
        """
        return self._loop.run(self._consumer.nack(messages, delay_level, reason))

    def change_invisible(self, message: MessageView, invisible_s: float) -> None:
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
