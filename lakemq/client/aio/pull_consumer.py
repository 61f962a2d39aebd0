"""The pull consumer: the program polls for messages, and chooses where to read."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, cast

from lakemq.client.bodies.decoder import Decoder
from lakemq.client.client_id import describe_queues
from lakemq.client.consume.fetch import Bounds, bounds_of, offset_at
from lakemq.client.consume.gaps import OnGap
from lakemq.client.consume.member import COMMIT_S, Member, MemberOptions
from lakemq.client.consume.message_batch import MessageBatch
from lakemq.client.consume.pull_stream import PullStream
from lakemq.client.consume.push_engine import HANDOVER_S
from lakemq.client.consume.rebalancer import Holder
from lakemq.client.consume.reply import ReplyFields, reply
from lakemq.client.consume.subscription import ConsumeFrom, Subscription, make_subscription, to_ms
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import Closed
from lakemq.client.route_source import RouteSource
from lakemq.client.view import MessageView
from lakemq.model.errors import ConsumeDisabled, InvalidRequest, LakemqError, QueueNotFound, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX
from lakemq.model.rebalance import Strategy

logger = logging.getLogger("lakemq.client")

POLL_MAX = 500
POLL_S = 1.0
COMMIT_WAIT_S = 0.5
"""How long a poll waits for the commit that it has begun."""
_RESHARED = TopicNotFound, QueueNotFound, ConsumeDisabled
"""No errors of assigned queues: one that is gone is revoked, and a pause is followed by the membership."""


class PullOptions(TypedDict, total=False):
    """Options of pull consumers, with asyncio and without."""

    brokers: str | Sequence[str] | None
    """Addresses of brokers. Without these and `nameservers`: the environment's LAKEMQ_NAMESERVERS, else its
    LAKEMQ_BROKER, else port 8080 of this machine."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, instead of `brokers`."""
    routes: RouteSource | None
    """A source of routes instead of addresses."""
    token: str | None
    """Identifies the client's user. By default it is the environment's LAKEMQ_TOKEN, or in the file that
    LAKEMQ_TOKEN_FILE names, else the token of this machine's administrator, if it can be found."""
    consume_from: ConsumeFrom
    """Where a group starts that has consumed nothing yet: `last` (default), `first`, or a time."""
    strategy: str | Strategy
    """How the queues of subscribed topics are assigned, as in `PushOptions`."""
    client_id: str | None
    """This member's name, which must be unique. The default is a unique one."""
    auto_commit: bool
    """Whether polls commit, every 5 s, what earlier polls have returned, and `close` commits everything. Default True.
    """
    decoder: Decoder
    """Decodes bodies for `message.decode(kind)`. The default is JSON."""
    on_gap: OnGap | None
    """Called with queue, offset and next offset, once for each range of skipped offsets that no longer has messages:
    they were erased, dropped, or lost with a log's tail. It runs on the client's event loop, so it must be quick and
    must not block. The client logs a warning in any case."""


class PullConsumer:
    """Reads queues for a group: the assigned queues, or its share of the subscribed topics.

    The messages of a poll count as processed when the next poll is called. With `auto_commit` False only `commit`
    commits. Options: `PullOptions`. Use it as an async context manager, or `close` it.
    """

    def __init__(self, group: str, **options: Unpack[PullOptions]) -> None:
        own = dict(options)
        self._auto_commit = bool(own.pop("auto_commit", True))
        self._decoder = cast("Decoder | None", own.pop("decoder", None))
        holder = Holder(self._gain, self._lose)
        self._member = Member(group, MemberOptions(**own), holder, retries=False)  # pyright: ignore[reportArgumentType]
        self._streams: dict[MessageQueue, PullStream] = {}
        self._member.status = self._status
        self._member.membership.on_enabled = self._follow_operator
        self._disabled: set[str] = set()
        self._paused: set[MessageQueue] = set()
        """Also while it doesn't have them: it may have them again, as after a reset of the offsets."""
        self._assigned: dict[MessageQueue, Subscription] | None = None
        self._arrived = asyncio.Event()
        self._starting = asyncio.Lock()
        self._committed_s = float("-inf")
        self._committing: dict[str, asyncio.Task[None]] = {}
        """What polls have each broker store."""
        self._storing: dict[str, asyncio.Lock] = {}
        self._turn = 0
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(commit=error is None)

    @property
    def client_id(self) -> str:
        """This member's name."""
        return self._member.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it reads, sorted."""
        return sorted(self._streams)

    def _status(self, broker: str) -> dict[str, Any]:
        streams = {queue: each for queue, each in self._streams.items() if queue.broker == broker}
        paused = broker in self._disabled or (bool(streams) and all(each.paused for each in streams.values()))
        buffered = sum(each.waiting for each in streams.values())
        return {"paused": paused, "buffered": buffered, **describe_queues(streams)}

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic, so that you can `assign` some of them. Raises `TopicNotFound`."""
        self._check_open()
        return await self._member.cluster.queues(topic)

    async def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Read this member's share of a topic; filters as in `PushConsumer`. The first poll, or `start`, joins the
        group. Messages produced from now on are read, whatever `consume_from` is. Raises `Unreachable` if no broker
        answers."""
        self._check_open()
        if self._assigned is not None:
            raise InvalidRequest("this consumer has queues assigned: it can't subscribe too")
        await self._member.subscribe(topic, tags, sql)
        if not self._member.started:
            await self._member.settle(topic)

    async def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic."""
        self._check_open()
        await self._member.unsubscribe(topic)
        self._paused = {queue for queue in self._paused if queue.topic != topic}

    async def assign(self, queues: Iterable[MessageQueue], tags: str = "*", sql: str | None = None) -> None:
        """Read exactly these queues, no matter who else reads them, instead of those assigned before. If the group's
        offsets are reset later, the consumer keeps its positions, and commits nothing more. Raises `QueueNotFound`,
        `TopicNotFound`, `Unreachable`; then nothing has changed."""
        self._check_open()
        if self._member.subscriptions:
            raise InvalidRequest("this consumer subscribes to topics: it can't have queues assigned too")
        wanted = {queue: make_subscription(queue.topic, tags, sql) for queue in queues}
        await self._member.follow_resets({queue.broker for queue in wanted})
        await self._member.begin(wanted)
        before = self._assigned or {}
        await self._lose([queue for queue in before if wanted.get(queue) != before[queue]], commit=True)
        self._assigned = wanted
        self._paused &= wanted.keys()
        await self._gain([queue for queue in wanted if queue not in self._streams], shared=False)

    async def start(self) -> None:
        """Join the group, if there are subscriptions. Raises `Unreachable` if no broker answers. You can try again."""
        self._check_open()
        async with self._starting:
            if not self._member.started and self._member.subscriptions:
                await self._member.start()

    async def poll(self, max_messages: int = POLL_MAX, wait_s: Seconds = POLL_S) -> MessageBatch:
        """The next messages, from all queues in turn. It waits for the first message, then returns all that have
        arrived. Empty if none arrived in time. Raises `LakemqError` if a queue can't be read."""
        await self.start()
        if max_messages < 1:
            raise InvalidRequest("max_messages is at least 1")
        clock = asyncio.get_running_loop().time
        end_s = clock() + to_seconds(wait_s, "wait_s")
        for stream in self._streams.values():
            stream.processed = stream.position
            stream.count_max = min(max_messages, MESSAGES_PER_PULL_MAX)
        if self._auto_commit and clock() - self._committed_s >= COMMIT_S:
            self._committed_s = clock()
            await self._commit_soon()
        while True:
            self._arrived.clear()
            self._raise_error()
            batch = self._take(max_messages)
            left_s = end_s - clock()
            if batch is not None or left_s <= 0:
                return batch or _empty()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()

    async def commit(self) -> None:
        """Commit everything that polls have returned. Raises `LakemqError`; some of it may be committed then."""
        self._check_open()
        for stream in self._streams.values():
            stream.processed = stream.position
        await self._commit(list(self._streams.values()))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue; None if it has none."""
        self._check_open()
        return (await self._member.api.offsets(queue.broker, queue.topic)).offsets.get(queue)

    async def position(self, queue: MessageQueue) -> int:
        """The offset of the next message to read from an assigned queue."""
        return await self._stream(queue).known_position()

    async def bounds(self, queue: MessageQueue) -> Bounds:
        """The first offset of a queue, and the offset of its next message."""
        return await bounds_of(self._member.cluster, queue)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at this offset."""
        if offset < 0:
            raise InvalidRequest(f"offset is {offset}; offsets begin with 0")
        await self._stream(queue).seek(offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Continue with the first message of these queues, or of all its queues if none is given."""
        for queue in await self._chosen(queues):
            await self.seek(queue, (await self.bounds(queue)).begin)

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Continue with the messages that arrive from now on; queues as in `seek_to_begin`."""
        for queue in await self._chosen(queues):
            await self.seek(queue, (await self.bounds(queue)).end)

    async def seek_to_time(self, time: datetime, *queues: MessageQueue) -> None:
        """Continue with the first message stored at this time or later; queues as in `seek_to_begin`."""
        timestamp_ms = to_ms(time)
        for queue in await self._chosen(queues):
            await self.seek(queue, await offset_at(self._member.cluster, queue, timestamp_ms))

    async def pause(self, *queues: MessageQueue) -> None:
        """Leave these queues out of polls until `resume`. Their positions stay the same."""
        for queue in queues:
            self._stream(queue).pause(True)
            self._paused.add(queue)

    async def resume(self, *queues: MessageQueue) -> None:
        """Let polls return messages of these queues again."""
        for queue in queues:
            self._paused.discard(queue)
            self._stream(queue).pause(False)
        self._arrived.set()

    async def reply(self, message: MessageView, body: bytes | str, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        await reply(self._member.cluster, message, body, fields)

    async def close(self, commit: bool = True) -> None:
        """Commit what polls have returned, and leave the group. It commits only with `auto_commit`. With `commit`
        False, the messages of the last poll are not committed."""
        self._closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(commit))
        await asyncio.shield(self._closing)  # who is interrupted here still leaves: else it keeps queues and reads none

    async def _close(self, commit: bool) -> None:
        await self._member.rebalancer.close()
        streams = list(self._streams.values())
        await asyncio.gather(*(stream.close() for stream in streams))
        if self._auto_commit and commit:
            for stream in streams:
                stream.processed = stream.position
        by_broker = _by_broker(streams) if self._auto_commit else {}

        async def last(broker: str) -> None:
            await self._try_commit(by_broker.get(broker, ()))

        await self._member.leave(by_broker, last)
        await _cancel(self._committing.values())
        await self._member.cluster.close()

    # Queues ------------------------------------------------------------------------------------

    async def _gain(self, queues: Sequence[MessageQueue], shared: bool) -> None:
        """Read these too."""
        for queue in queues:
            subscription = (self._assigned or {}).get(queue) or self._member.subscription_of(queue)
            params = {**subscription.params(), "group": self._member.group}
            begin = self._beginner(queue, shared)
            stream = PullStream(self._member.cluster, queue, params, begin, self._arrived.set, self._member.gaps)
            stream.pause(queue in self._paused)
            self._streams[queue] = stream

    async def _lose(self, queues: Sequence[MessageQueue], commit: bool) -> None:
        """Stop reading these."""
        streams = [self._streams.pop(queue) for queue in queues]
        await asyncio.gather(*(stream.close() for stream in streams))
        if commit and self._auto_commit:
            # Now or never: later the offsets are the next owner's.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_S):
                    await self._try_commit(streams)

    def _beginner(self, queue: MessageQueue, shared: bool):
        async def begin() -> int:
            if shared:
                await asyncio.sleep(HANDOVER_S)
            return await self._member.offsets.load(queue)

        return begin

    def _stream(self, queue: MessageQueue) -> PullStream:
        self._check_open()
        stream = self._streams.get(queue)
        if stream is None:
            raise InvalidRequest(f"this consumer doesn't read {queue}")
        return stream

    async def _chosen(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        await self.start()
        return list(queues) or self.queues

    def _follow_operator(self, broker: str, enabled: bool) -> None:
        (self._disabled.discard if enabled else self._disabled.add)(broker)
        self._arrived.set()

    def _raise_error(self) -> None:
        if disabled := self._disabled.intersection(queue.broker for queue in self._streams):
            where = ", ".join(sorted(disabled))
            raise ConsumeDisabled(
                f"an operator has paused {self.client_id}, or its group {self._member.group}, at {where}"
            )
        for stream in self._streams.values():
            error, stream.error = stream.error, None
            if error is None:
                continue
            if self._assigned is None:
                self._member.rebalancer.trigger()
                if isinstance(error, _RESHARED):
                    continue
            raise error

    def _take(self, count_max: int) -> MessageBatch | None:
        import pyarrow as pa

        streams = list(self._streams.values())
        self._turn += 1
        parts: list[pa.Table] = []
        for number in range(len(streams)):
            stream = streams[(self._turn + number) % len(streams)]
            if stream.waiting and count_max:
                parts.append(stream.take(count_max))
                count_max -= parts[-1].num_rows
        # Brokers of different versions answer with different columns: those that one lacks are null.
        return MessageBatch(pa.concat_tables(parts, promote_options="default"), self._decoder) if parts else None

    async def _commit_soon(self) -> None:
        """Commit what polls have returned. A broker that takes its time isn't waited for, nor asked again meanwhile."""
        begun: list[asyncio.Task[None]] = []
        for broker, streams in _by_broker(self._streams.values()).items():
            if broker not in self._committing:
                committing = self._committing[broker] = asyncio.create_task(self._try_commit(streams))
                committing.add_done_callback(lambda _, broker=broker: self._committing.pop(broker))
                begun.append(committing)
        if begun:
            await asyncio.wait(begun, timeout=COMMIT_WAIT_S)

    async def _try_commit(self, streams: Iterable[PullStream]) -> None:
        try:
            await self._commit(streams)
        except LakemqError as error:
            logger.warning("could not commit offsets: %s", error)

    async def _commit(self, streams: Iterable[PullStream]) -> None:
        """At all brokers together; raises the first error once each has answered."""
        stores = [self._store(broker, part) for broker, part in _by_broker(streams).items()]
        for answer in await asyncio.gather(*stores, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _store(self, broker: str, streams: Sequence[PullStream]) -> None:
        """At one broker, one commit after the other: a later one is never overtaken."""
        async with self._storing.setdefault(broker, asyncio.Lock()):
            offsets = {
                each: each.processed
                for each in streams
                if each.processed not in (None, each.committed) and self._member.may_commit(each.queue)
            }
            if offsets:
                await self._member.offsets.store({each.queue: offset for each, offset in offsets.items()})
            for each, offset in offsets.items():
                each.committed = offset

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the consumer {self.client_id} is closed")


def _by_broker(streams: Iterable[PullStream]) -> dict[str, list[PullStream]]:
    found: dict[str, list[PullStream]] = {}
    for stream in streams:
        found.setdefault(stream.queue.broker, []).append(stream)
    return found


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


def _empty() -> MessageBatch:
    from lakemq.model.columns import MESSAGE

    return MessageBatch(MESSAGE.empty_table())
