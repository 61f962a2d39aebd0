"""The push consumer for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
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
from lakemq.client.loop import background
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue


class PushConsumer:
    """Calls a listener, in threads of its own, with the messages of the topics that its group
    subscribes to.

    `listener` gets one message, `batch_listener` a list of them; give one of the two. It returns a
    `ConsumeResult`, or None for success; what it raises makes the message come again later. Every
    message is processed at least once: again when a member is lost, or hands a queue over while it is
    in work. Members of a group must subscribe alike. Options: `PushOptions`.

    Use it as a context manager, or `start` and `close` it.
    """

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
        self._engine = make_engine(group, invoke, listener is None, False, options)
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
        """Whether some broker has heard of this member lately, and has it in the group."""
        return self._engine.connected

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member has now, sorted."""
        return self._engine.queues

    def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Consume a topic, or those of its messages that have one of the tags (`A || B`), or whose
        properties fulfil an SQL92 expression. Before `start` or after; what the broker has against it,
        such as `InvalidFilter`, is raised by the later of the two."""
        self._loop.run(self._engine.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more."""
        self._loop.run(self._engine.unsubscribe(topic))

    def pause(self, *what: str | MessageQueue) -> None:
        """Call the listener no more, until `resume`: with messages of these topics and queues, also of those that come
        later; with none at all when none is named. Calls that are under way end. The queues stay this member's, and
        what is held of them stays here, within `limits`. Retries are in a topic of their own, `%RETRY%{group}`."""
        self._loop.run(self._engine.pause(what))

    def resume(self, *what: str | MessageQueue) -> None:
        """Go on with what was paused by these names; with all when none is named."""
        self._loop.run(self._engine.resume(what))

    @property
    def paused(self) -> bool:
        """Whether all is paused, by `pause` without a name."""
        return self._engine.paused

    def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Answer a message whose producer waits for a reply (`Producer.request`). Raises `InvalidRequest`
        when it is no request, and `RequestNotFound` when nobody waits any more."""
        self._loop.run(self._engine.reply(message, body, fields))

    def start(self) -> None:
        """Join the group and begin. Raises `Unreachable` when no broker answers."""
        self._loop.run(self._engine.start())

    def close(self) -> None:
        """Finish the messages that are being processed, waiting 5 s at most, commit, and leave the
        group: the others have the queues at once. A listener that calls this isn't waited for: the
        consumer is closed once it has returned."""
        closing = self._loop.submit(self._engine.close())
        closing.add_done_callback(lambda _: self._threads.shutdown(wait=False))
        if not getattr(self._here, "listening", False):
            closing.result()
            self._threads.shutdown(wait=False, cancel_futures=True)

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
