"""The push consumer for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Self, Unpack

from lakemq.client.consume.filtered import check_filter, filtered, filtered_batch
from lakemq.client.consume.listener import (
    BatchListener,
    Listener,
    Outcome,
    Terms,
    check_listener,
    run_batch_listener,
    run_listener,
)
from lakemq.client.consume.process_queue import Work
from lakemq.client.consume.push_options import CONCURRENCY, PushOptions, make_engine
from lakemq.client.consume.reply import ReplyFields
from lakemq.client.loop import background, uninterrupted
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue


class PushConsumer:
    """Calls a listener, in its own threads, with the messages of the topics that its group subscribes to.

    `listener` gets one message, `batch_listener` a list of messages. Give one of the two. It returns a `ConsumeResult`,
    or None for success. If it raises an error, the message is delivered again later. Every message is processed at
    least once; it may be processed again if a member is lost, or hands over a queue while it is processing the message.
    All members of a group must have the same subscriptions. Options: `PushOptions`.

    Use it as a context manager, or `start` and `close` it.
    """

    _retries_by_topic: Mapping[str, int] = MappingProxyType({})  # of an application's

    def __init__(
        self,
        group: str,
        listener: Listener | None = None,
        *,
        batch_listener: BatchListener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        if (listener is None) == (batch_listener is None):
            raise InvalidRequest("give a listener, or a batch_listener")
        check_listener(listener or batch_listener)
        keep = options.pop("filter", None)
        if keep is not None:
            check_filter(keep)
            listener = None if listener is None else filtered(listener, keep)
            batch_listener = None if batch_listener is None else filtered_batch(batch_listener, keep)
        self._listener = listener
        self._batch_listener = batch_listener
        self._loop = background()
        invoke = self._invoke if listener is not None else self._invoke_batch
        self._engine = make_engine(group, invoke, listener is None, False, options, self._retries_by_topic)
        self._here = threading.local()
        self._threads = ThreadPoolExecutor(
            options.get("concurrency", CONCURRENCY), f"lakemq-{group}", initializer=self._mark_thread
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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

    def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Consume a topic, or only its messages with one of the tags (`A || B`), or with properties that match an SQL92
        expression. You can call this before or after `start`; the later of the two calls raises the broker's error,
        such as `InvalidFilter`."""
        self._loop.run(self._engine.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic."""
        self._loop.run(self._engine.unsubscribe(topic))

    def pause(self, *what: str | MessageQueue) -> None:
        """Stop calling the listener, until `resume`, with messages of these topics and queues, including queues
        assigned later. Without arguments, everything is paused. Running calls end normally. The member keeps its
        queues, and the messages it holds, within `limits`. Retries are in a separate topic, `%RETRY%{group}`."""
        self._loop.run(self._engine.pause(what))

    def resume(self, *what: str | MessageQueue) -> None:
        """Resume the topics and queues that were paused by these names, or everything if none is given."""
        self._loop.run(self._engine.resume(what))

    @property
    def paused(self) -> bool:
        """Whether everything is paused, by `pause` without arguments."""
        return self._engine.paused

    def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        self._loop.run(self._engine.reply(message, body, fields))

    def start(self) -> None:
        """Join the group and start consuming. Raises `Unreachable` if no broker answers."""
        self._loop.run(self._engine.start())

    def close(self) -> None:
        """Finish the messages that are being processed, waiting at most 5 s, commit, and leave the group. The other
        members get the queues at once. If a listener or a callback calls this, `close` doesn't wait for it: the
        consumer is closed once that has returned."""
        if getattr(self._here, "listening", False) or self._loop.is_here():
            self._loop.submit(self._close(waited=False))
        else:
            self._loop.run(uninterrupted(partial(self._close, waited=True)))

    async def _close(self, waited: bool) -> None:
        try:
            await self._engine.close()
        finally:  # here, as it takes a lock that a signal's handler could find taken in the closing thread
            self._threads.shutdown(wait=False, cancel_futures=waited)

    def _mark_thread(self) -> None:
        self._here.listening = True

    async def _invoke(self, work: Work[MessageView], terms: Terms) -> Outcome:
        loop = asyncio.get_running_loop()
        assert self._listener is not None
        return await loop.run_in_executor(self._threads, run_listener, self._listener, work, terms)

    async def _invoke_batch(self, work: Work[MessageView], terms: Terms) -> Outcome:
        loop = asyncio.get_running_loop()
        assert self._batch_listener is not None
        return await loop.run_in_executor(self._threads, run_batch_listener, self._batch_listener, work, terms)
