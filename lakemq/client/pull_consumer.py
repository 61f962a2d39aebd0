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
    """Reads queues for a group: the assigned queues, or its share of the subscribed topics.

    The messages of a poll count as processed when the next poll is called. With `auto_commit` False only `commit`
    commits. Options: `PullOptions`. Use it as a context manager, or `close` it. One thread at a time may poll.
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
        """All queues of a topic, so that you can `assign` some of them. Raises `TopicNotFound`."""
        return self._loop.run(self._consumer.queues_of(topic))

    def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Read this member's share of a topic; filters as in `PushConsumer`. The first poll, or `start`, joins the
        group. Messages produced from now on are read, whatever `consume_from` is. Raises `Unreachable` if no broker
        answers."""
        self._loop.run(self._consumer.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic."""
        self._loop.run(self._consumer.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", sql: str | None = None) -> None:
        """Read exactly these queues, no matter who else reads them, instead of those assigned before. If the group's
        offsets are reset later, the consumer keeps its positions, and commits nothing more. Raises `QueueNotFound`,
        `TopicNotFound`, `Unreachable`; then nothing has changed."""
        self._loop.run(self._consumer.assign(list(queues), tags, sql))

    def start(self) -> None:
        """Join the group, if there are subscriptions. Raises `Unreachable` if no broker answers. You can try again."""
        self._loop.run(self._consumer.start())

    def poll(self, max_messages: int = POLL_MAX, wait_s: Seconds = POLL_S) -> MessageBatch:
        """The next messages, from all queues in turn. It waits for the first message, then returns all that have
        arrived. Empty if none arrived in time. Raises `LakemqError` if a queue can't be read."""
        return self._loop.run(self._consumer.poll(max_messages, wait_s))

    def commit(self) -> None:
        """Commit everything that polls have returned. Raises `LakemqError`; some of it may be committed then."""
        self._loop.run(self._consumer.commit())

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue; None if it has none."""
        return self._loop.run(self._consumer.committed(queue))

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message to read from an assigned queue."""
        return self._loop.run(self._consumer.position(queue))

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The first offset of a queue, and the offset of its next message."""
        return self._loop.run(self._consumer.bounds(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at this offset."""
        self._loop.run(self._consumer.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Continue with the first message of these queues, or of all its queues if none is given."""
        self._loop.run(self._consumer.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Continue with the messages that arrive from now on; queues as in `seek_to_begin`."""
        self._loop.run(self._consumer.seek_to_end(*queues))

    def seek_to_time(self, time: datetime, *queues: MessageQueue) -> None:
        """Continue with the first message stored at this time or later; queues as in `seek_to_begin`."""
        self._loop.run(self._consumer.seek_to_time(time, *queues))

    def pause(self, *queues: MessageQueue) -> None:
        """Leave these queues out of polls until `resume`. Their positions stay the same."""
        self._loop.run(self._consumer.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Let polls return messages of these queues again."""
        self._loop.run(self._consumer.resume(*queues))

    def reply(self, message: MessageView, body: bytes | str, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        self._loop.run(self._consumer.reply(message, body, **fields))

    def close(self, commit: bool = True) -> None:
        """Commit what polls have returned, and leave the group. It commits only with `auto_commit`. With `commit`
        False, the messages of the last poll are not committed."""
        self._loop.run(self._consumer.close(commit))
