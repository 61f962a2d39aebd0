"""The push consumer: a listener is called with each message of its group's topics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Self, Unpack

from lakemq.client.consume.filtered import Filter, check_filter, filtered_async, filtered_async_batch
from lakemq.client.consume.listener import (
    AsyncBatchListener,
    AsyncListener,
    Outcome,
    Terms,
    check_listener,
    run_async_batch_listener,
    run_async_listener,
)
from lakemq.client.consume.process_queue import Work
from lakemq.client.consume.push_engine import Invoke
from lakemq.client.consume.push_options import PushOptions, make_engine
from lakemq.client.consume.reply import ReplyFields
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue


class PushConsumer:
    """Calls a listener with the messages of the topics that its group subscribes to.

    `listener` gets one message, `batch_listener` a list of messages. Give one of the two. It returns a `ConsumeResult`,
    or None for success. If it raises an error, the message is delivered again later. Every message is processed at
    least once; it may be processed again if a member is lost, or hands over a queue while it is processing the message.
    All members of a group must have the same subscriptions. Options: `PushOptions`.

    Use it as an async context manager, or `start` and `close` it.
    """

    _retries_by_topic: Mapping[str, int] = MappingProxyType({})  # of an application's

    def __init__(
        self,
        group: str,
        listener: AsyncListener | None = None,
        *,
        batch_listener: AsyncBatchListener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        invoke = _invoke(listener, batch_listener, options.pop("filter", None))
        self._engine = make_engine(group, invoke, batch_listener is not None, True, options, self._retries_by_topic)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """This member's name."""
        return self._engine.client_id

    @property
    def connected(self) -> bool:
        """Whether a broker has received a recent heartbeat of this member, and has it in the group."""
        return self._engine.connected

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member has now, sorted."""
        return self._engine.queues

    async def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Consume a topic, or only its messages with one of the tags (`A || B`), or with properties that match an SQL92
        expression. You can call this before or after `start`; the later of the two calls raises the broker's error,
        such as `InvalidFilter`."""
        await self._engine.subscribe(topic, tags, sql)

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic."""
        await self._engine.unsubscribe(topic)

    async def pause(self, *what: str | MessageQueue) -> None:
        """Stop calling the listener, until `resume`, with messages of these topics and queues, including queues
        assigned later. Without arguments, everything is paused. Running calls end normally. The member keeps its
        queues, and the messages it holds, within `limits`. Retries are in a separate topic, `%RETRY%{group}`."""
        await self._engine.pause(what)

    async def resume(self, *what: str | MessageQueue) -> None:
        """Resume the topics and queues that were paused by these names, or everything if none is given."""
        await self._engine.resume(what)

    @property
    def paused(self) -> bool:
        """Whether everything is paused, by `pause` without arguments."""
        return self._engine.paused

    async def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        await self._engine.reply(message, body, fields)

    async def start(self) -> None:
        """Join the group and start consuming. Raises `Unreachable` if no broker answers."""
        await self._engine.start()

    async def close(self) -> None:
        """Finish the messages that are being processed, waiting at most 5 s, commit, and leave the group. The other
        members get the queues at once."""
        await self._engine.close()


def _invoke(listener: AsyncListener | None, batch_listener: AsyncBatchListener | None, keep: Filter | None) -> Invoke:
    async def one_by_one(work: Work[MessageView], terms: Terms) -> Outcome:
        assert listener is not None
        return await run_async_listener(listener, work, terms)

    async def together(work: Work[MessageView], terms: Terms) -> Outcome:
        assert batch_listener is not None
        return await run_async_batch_listener(batch_listener, work, terms)

    if (listener is None) == (batch_listener is None):
        raise InvalidRequest("give a listener, or a batch_listener")
    check_listener(listener or batch_listener, asynchronous=True)
    if keep is not None:
        check_filter(keep)
        listener = None if listener is None else filtered_async(listener, keep)
        batch_listener = None if batch_listener is None else filtered_async_batch(batch_listener, keep)
    return together if listener is None else one_by_one
