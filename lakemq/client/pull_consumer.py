"""The pull consumer for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from lakemq.client.aio.pull_consumer import POLL_MAX, POLL_S, PullOptions
from lakemq.client.aio.pull_consumer import PullConsumer as AsyncPullConsumer
from lakemq.client.consume.fetch import Bounds
from lakemq.client.consume.message_batch import MessageBatch
from lakemq.client.consume.reply import ReplyFields
from lakemq.client.durations import Seconds
from lakemq.client.loop import background
from lakemq.client.view import MessageView
from lakemq.model.message_queue import MessageQueue


class PullConsumer:
    """Reads queues for a group: those that it is assigned, or its share of the topics it subscribes to.

    What a poll returned counts as processed when the next one is called. With `auto_commit` False only
    `commit` commits. Options: `PullOptions`. Use it as a context manager, or `close` it. One thread at
    a time may poll.
    """

    def __init__(self, group: str, **options: Unpack[PullOptions]) -> None:
        self._loop = background()
        self._consumer = AsyncPullConsumer(group, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(commit=error is None)

    @property
    def client_id(self) -> str:
        """This member's name."""
        return self._consumer.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it reads, sorted."""
        return self._consumer.queues

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic, to `assign` some of them. Raises `TopicNotFound`."""
        return self._loop.run(self._consumer.queues_of(topic))

    def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Read this member's share of a topic; filters as those of `PushConsumer`. The group is joined by
        the first poll, or `start`; but what is produced from now on is polled, whatever `consume_from`
        is. Raises `Unreachable` when no broker answers."""
        self._loop.run(self._consumer.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        self._loop.run(self._consumer.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", sql: str | None = None) -> None:
        """Read just these queues, whoever else does; those that were assigned before no more. When the
        group's offsets are reset afterwards, what is read doesn't change, and nothing more is committed.
        Raises `QueueNotFound`, `TopicNotFound`, `Unreachable`, and leaves all as it was then."""
        self._loop.run(self._consumer.assign(list(queues), tags, sql))

    def start(self) -> None:
        """Join the group, if topics are subscribed to. Raises `Unreachable` when no broker answers."""
        self._loop.run(self._consumer.start())

    def poll(self, max_messages: int = POLL_MAX, wait_s: Seconds = POLL_S) -> MessageBatch:
        """The next messages, of all queues in turn; waits for the first, and then returns what is there.
        Empty when none came in time. Raises `LakemqError` when a queue can't be read."""
        return self._loop.run(self._consumer.poll(max_messages, wait_s))

    def commit(self) -> None:
        """Commit all that polls have returned. Raises `LakemqError`: some may be committed then."""
        self._loop.run(self._consumer.commit())

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset of a queue at its broker; None where it has none."""
        return self._loop.run(self._consumer.committed(queue))

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message of a queue that it reads."""
        return self._loop.run(self._consumer.position(queue))

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The first offset of a queue, and the one that its next message gets."""
        return self._loop.run(self._consumer.bounds(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at that offset of a queue that it reads."""
        self._loop.run(self._consumer.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on with the first message of these queues; of all that it reads when none is named."""
        self._loop.run(self._consumer.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on with the messages that come from now on; queues as for `seek_to_begin`."""
        self._loop.run(self._consumer.seek_to_end(*queues))

    def seek_to_time(self, time: datetime, *queues: MessageQueue) -> None:
        """Go on with the first message stored at that time or after; queues as for `seek_to_begin`."""
        self._loop.run(self._consumer.seek_to_time(time, *queues))

    def pause(self, *queues: MessageQueue) -> None:
        """Leave these queues out of polls, until `resume`; their positions stay."""
        self._loop.run(self._consumer.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Have polls return messages of these queues again."""
        self._loop.run(self._consumer.resume(*queues))

    def reply(self, message: MessageView, body: bytes | str, **fields: Unpack[ReplyFields]) -> None:
        """Answer a message whose producer waits for a reply (`Producer.request`). Raises `InvalidRequest`
        when it is no request, and `RequestNotFound` when nobody waits any more."""
        self._loop.run(self._consumer.reply(message, body, **fields))

    def close(self, commit: bool = True) -> None:
        """Commit what polls have returned (with `auto_commit`, and unless `commit` is False: then what
        the last one returned is not), and leave the group."""
        self._loop.run(self._consumer.close(commit))
