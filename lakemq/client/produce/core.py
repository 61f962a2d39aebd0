"""Collects messages into batches and sends them: the producers' own machine.

`append` may be called from any thread; everything else belongs to the event loop. A batch is sent
when nothing of its lane is under way, when it is full, or when its first message has waited for
`linger_s`, whichever is first: so a lone message goes at once, and many go together.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

from lakemq.client.errors import Closed, Unreachable
from lakemq.client.held import holder_of
from lakemq.client.loop import FORKED
from lakemq.client.outgoing import Message, MessageFields, SendReceipt, check_topic, is_delayed
from lakemq.client.produce.batch import MESSAGE_OVERHEAD_BYTES, Batch, Failed, Halves, Outcome, until_ended
from lakemq.client.produce.choice import CHOOSING, chooses, extra_bytes, queue_of
from lakemq.client.produce.deliver import WAIT_S, Delivered, Deliverer, Request
from lakemq.client.produce.encode import COMPRESSED_FROM_BYTES, encode, read_messages, read_ranges
from lakemq.client.produce.heartbeats import Heartbeats
from lakemq.client.produce.lane import Lane, LaneKind
from lakemq.client.produce.left import Left
from lakemq.client.produce.options import Options
from lakemq.client.produce.unreported import Unreported
from lakemq.client.routes import Cluster
from lakemq.contract import routes
from lakemq.model.errors import (
    InvalidRequest,
    LakemqError,
    MessageTooLarge,
    QueueNotFound,
    ReadOnlyTopic,
    TopicNotFound,
    WrongMessageType,
)
from lakemq.model.message_queue import MessageQueue
from lakemq.model.send_ids import SendIds

if TYPE_CHECKING:
    from lakemq.client.tracing import Tracing

logger = logging.getLogger(__name__)

LANES_MAX = 10_000
"""Lanes that are kept though there is nothing in them."""
_BAD_MESSAGE = (InvalidRequest, MessageTooLarge, WrongMessageType)
"""What one message can do to a whole batch."""


Wake = Callable[[Callable[[Lane], None], Lane], object]
"""Has the event loop call a function: from any thread, if messages are appended in any."""


class Core:
    """One producer's messages that aren't stored yet: `buffered` bytes. `filled` counts full batches."""

    def __init__(self, cluster: Cluster, options: Options, loop: asyncio.AbstractEventLoop, wake: Wake) -> None:
        self.cluster = cluster
        self.options = options
        self.deliverer = Deliverer(cluster, options.patience)
        self.heartbeats = Heartbeats(cluster, self._count)
        self._make_lock()
        self.buffered = self.filled = 0
        self.closed = False
        self._batch_bytes = options.batch_bytes
        self._number_max = options.batch_messages - 1
        self._wake = wake
        self._lanes: dict[LaneKind, Lane] = {}
        self._plain: dict[str, Lane] = {}
        self._keyed: dict[str, Lane] = {}
        self._queue_lanes: dict[MessageQueue, LaneKind] = {}
        self._queues: dict[str, list[MessageQueue]] = {}
        self._unreported = Unreported()
        self._left = Left()
        self._flushing = self._sends = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._room_waiters: list[asyncio.Future[None]] = []
        self._loop = loop
        self._forked = False
        self._sender = secrets.token_urlsafe(9)
        _cores.add(self)

    def _make_lock(self) -> None:
        self.lock = threading.RLock()
        self.is_held = holder_of(self.lock)
        self.room = threading.Condition(self.lock)

    # Appending: any thread ---------------------------------------------------------------------

    def append_plain(self, topic: str, body: bytes) -> tuple[Batch, int]:
        """Append a message that is only a body. Raises `Closed`. The caller has waited for room."""
        size = len(body) + MESSAGE_OVERHEAD_BYTES
        with self.lock:
            lane = self._plain.get(topic)
            if lane is None:
                lane = self._plain[topic] = self._lane(LaneKind(topic))
            batch = lane.open
            if batch is None:
                batch = self._open(lane)
            bodies = batch.bodies
            number = len(bodies)
            bodies.append(body)
            batch.size += size
            self.buffered += size
            if batch.size >= self._batch_bytes or number >= self._number_max:
                self._fill(lane)
        return batch, number

    def append(
        self, kind: LaneKind, body: bytes, fields: MessageFields, tracing: Tracing | None = None
    ) -> tuple[Batch, int]:
        """Append any message to its lane (see `lane_of`), with a span that ends as its sending does.
        Raises `Closed`."""
        if tracing is not None:
            return self._append_traced(kind, body, fields, tracing)
        size = len(body) + MESSAGE_OVERHEAD_BYTES + extra_bytes(fields)
        with self.lock:
            lane = self._lanes.get(kind)
            if lane is None:
                lane = self._lane(kind)
            batch = lane.open or self._open(lane)
            number = batch.add(body, fields)
            batch.size += size
            self.buffered += size
            if batch.size >= self._batch_bytes or number >= self._number_max:
                self._fill(lane)
        return batch, number

    def _append_traced(self, kind: LaneKind, body: bytes, fields: MessageFields, tracing: Tracing) -> tuple[Batch, int]:
        span, properties = tracing.begin_send(kind.topic, len(body), fields.get("properties"))
        try:
            batch, number = self.append(kind, body, {**fields, "properties": properties})
        except LakemqError as error:
            tracing.end_send(span, error)
            raise

        def end(ended: Batch) -> None:
            assert ended.outcome is not None
            tracing.end_send(span, None if kind.oneway else ended.outcome(number))

        batch.when_ended(end, batch)
        return batch, number

    def lane_of(self, topic: str, fields: MessageFields, oneway: bool = False) -> LaneKind | None:
        """Which lane a message belongs to; None: the queues are yet to `learn`."""
        if is_delayed(fields) or "priority" in fields:
            return LaneKind(topic, delayed=True)
        if not chooses(fields):
            return LaneKind(topic, oneway=oneway)
        waiting = self._keyed.get(topic)
        if waiting is not None and not waiting.idle:
            return waiting.kind  # what came before it is still there
        queues = self._queues.get(topic)
        if queues is None:
            return None
        queue = queue_of(queues, fields)
        if queue is None:
            return LaneKind(topic, keyed=True)
        return self._queue_lanes.get(queue) or self._queue_lane(queue)

    def lane_to(self, queue: MessageQueue, fields: MessageFields) -> LaneKind:
        """The lane of a message whose sender chose its queue: it goes there, or nowhere."""
        if is_delayed(fields):
            return LaneKind(queue.topic, queue=queue, delayed=True)
        return self._queue_lanes.get(queue) or self._queue_lane(queue)

    def queues_known(self, topic: str, queue: MessageQueue | None = None) -> list[MessageQueue] | None:
        """The topic's queues that are written, sorted, if they were asked for before, and this one is one of them; from
        any thread."""
        queues = self._queues.get(topic)
        return queues if queues and (queue is None or queue in queues) else None

    def _queue_lane(self, queue: MessageQueue) -> LaneKind:
        if len(self._queue_lanes) > LANES_MAX:
            self._queue_lanes.clear()
        kind = self._queue_lanes[queue] = LaneKind(queue.topic, queue=queue)
        return kind

    def _count(self) -> int:
        with self.lock:
            return sum(len(batch.bodies) for lane in self._lanes.values() for batch in lane.batches())

    def has_room(self) -> bool:
        """Whether there is room for a message."""
        return self.buffered < self.options.buffer_bytes

    def _lane(self, kind: LaneKind) -> Lane:
        lane = self._lanes.get(kind)
        if lane is None:
            check_topic(kind.topic)
            lane = self._lanes[kind] = Lane(kind)
            if kind.keyed:
                self._keyed[kind.topic] = lane
        return lane

    def _open(self, lane: Lane) -> Batch:
        if self.closed:
            raise Closed(FORKED if self._forked else "the producer is closed")
        batch = lane.open = Batch(lane.kind.topic, self._loop.time())
        self._rouse(lane)
        return batch

    def _fill(self, lane: Lane) -> None:
        assert lane.open is not None
        lane.ready.append(lane.open)
        lane.open = None
        self.filled += 1
        self._rouse(lane)

    def _rouse(self, lane: Lane) -> None:
        if not lane.woken:
            lane.woken = True
            try:
                self._wake(self._pump, lane)
            except BaseException:  # an interrupt too: else nobody wakes it any more
                lane.woken = False
                raise

    def leave(self) -> None:
        """This is a forked child: all that isn't stored is the parent's, and here nothing more is taken.
        Whoever held the locks isn't here, nor anybody who waits."""
        self._forked = self.closed = True
        self._make_lock()
        self._unreported.leave()
        self._left = Left()
        for lane in self._lanes.values():
            for batch in lane.batches():
                batch.outcome = batch.outcome or Failed(Closed(FORKED))
        self._lanes, self._plain, self._keyed = {}, {}, {}
        self.buffered = 0

    # Sending: the event loop ---------------------------------------------------------------------

    async def known_queues(self, topic: str, make: bool = False) -> list[MessageQueue]:
        """The topic's queues that are written, none when it doesn't exist; from now on `lane_of` knows them.
        `make`: a lone broker makes it, too. Raises `Unreachable`."""
        queues = await self.deliverer.queues_of(topic, make)
        self._queues.pop(topic, None)
        self._queues[topic] = queues
        if len(self._queues) > LANES_MAX:
            del self._queues[next(iter(self._queues))]
        return queues

    async def learn(self, topic: str, make: bool = False) -> list[MessageQueue]:
        """`known_queues`, asked for again and again until `timeout_s` is over."""
        deadline_s = self._loop.time() + self.options.patience.timeout_s
        while True:
            try:
                return await self.known_queues(topic, make)
            except Unreachable:
                if self._loop.time() + WAIT_S > deadline_s:
                    raise
                await asyncio.sleep(WAIT_S)

    def _pump(self, lane: Lane) -> None:
        """Send what may be sent now, and come back when the rest may."""
        options = self.options
        lane.woken = False
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        while True:
            now_s = self._loop.time()
            with self.lock:
                batch = lane.take(options.in_flight_max, options.linger_s, now_s, self._flushing > 0)
                waiting = lane.open
            if batch is None:
                break
            task = self._loop.create_task(self._send(lane, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if waiting is not None and lane.flying:
            left_s = waiting.begun_s + options.linger_s - now_s
            if left_s > 0:  # else it goes when one of those under way is back
                lane.timer = self._loop.call_later(left_s, self._pump, lane)

    async def _send(self, lane: Lane, batch: Batch) -> None:
        size = batch.size
        try:
            outcome = await self._store(lane.kind, batch, lambda: self._is_late(lane, batch))
        except asyncio.CancelledError:
            outcome = Failed(Closed("the producer was closed before it knew that the message is stored"))
        except Exception as error:  # an answer that makes no sense, at worst: whoever waits is to know
            logger.exception("sending to topic %s failed", batch.topic)
            outcome = Failed(LakemqError(f"the answer can't be used: {error!r}"))
        self._finish(lane, batch, outcome, size)

    def _is_late(self, lane: Lane, batch: Batch) -> None:
        with self.lock:
            lane.is_late(batch)
        self._pump(lane)

    def _finish(self, lane: Lane, batch: Batch, outcome: Outcome, size: int) -> None:
        if isinstance(outcome, Failed | Halves) and not lane.kind.oneway and not self.closed:
            self._unreported.keep(batch, outcome)
        batch.settle(outcome)  # before others have its room: what is under way is never more than the buffer holds
        with self.lock:
            lane.end(batch)
            self.buffered -= size
            if len(self._lanes) > LANES_MAX and lane.idle:
                self._lanes.pop(lane.kind, None)
                self._plain.pop(lane.kind.topic, None)
                self._keyed.pop(lane.kind.topic, None)
        self._tell_of_room()
        batch.tell()  # what it calls may send
        self._pump(lane)

    async def _store(self, kind: LaneKind, batch: Batch, late: Callable[[], object]) -> Outcome:
        """The outcome of the batch's messages. If one message makes the whole batch fail, only that message fails."""
        try:
            return await self._store_whole(kind, batch, late)
        except _BAD_MESSAGE as error:
            count = len(batch.bodies)
            if count == 1 or kind.oneway:
                return Failed(error)
            half = count // 2
            first = await self._store(kind, batch.part(0, half), late)
            second = await self._store(kind, batch.part(half, count), late)
            return Halves(first, half, second)
        except LakemqError as error:
            if isinstance(error, QueueNotFound | TopicNotFound | ReadOnlyTopic):
                self._queues.pop(kind.topic, None)
            return Failed(error)

    async def _store_whole(self, kind: LaneKind, batch: Batch, late: Callable[[], object]) -> Outcome:
        options, topic = self.options, batch.topic
        queue_id = kind.queue.queue_id if kind.queue is not None else None
        as_json = kind.as_json or _is_lone(batch)
        send_ids = None if kind.ordered or kind.oneway else await self.send_ids(batch)
        encoded = encode(batch, queue_id, as_json, options.compression, send_ids)
        request = Request(
            topic=topic,
            target=routes.PRODUCE.at(topic),
            pieces=encoded.pieces,
            content_type=encoded.content_type,
            params=self.ack_params(kind.oneway),
            headers=encoded.headers,
            broker=kind.queue.broker if kind.queue is not None else None,
            anywhere=send_ids is not None,
            once=not kind.oneway,
            begun_s=batch.begun_s,
            late=None if kind.ordered else late,
        )
        delivered = await self.deliverer.deliver(request)
        self.heartbeats.stored(delivered.broker, topic)
        if kind.ordered:
            await self._renew(topic)
        if kind.oneway:
            return Failed(Closed("a one-way message reports no outcome"))
        return read_answer(as_json, topic, len(batch.bodies), delivered)

    async def send_ids(self, batch: Batch) -> SendIds | None:
        """Names for the messages of a batch that may be stored by two brokers; None: only one is to store them, as
        there is no other, or as their order or their queue is asked for."""
        if not self.options.anywhere or not batch.columns.keys().isdisjoint(CHOOSING):
            return None
        if not await self.deliverer.has_choice(batch.topic):
            return None
        begin = self._sends
        self._sends += len(batch.bodies)
        return SendIds(self._sender, begin)

    async def _renew(self, topic: str) -> None:
        """Keep the queues that ordering keys are spread over up to date."""
        try:
            await self.known_queues(topic)
        except LakemqError:
            return  # those that are known go on, and what was just stored is

    def ack_params(self, oneway: bool = False) -> dict[str, str | int]:
        """The query that says when a request is answered."""
        return {"ack": "none" if oneway else "sync"} if oneway or self.options.sync else {}

    # Waiting ---------------------------------------------------------------------------------------

    def _tell_of_room(self) -> None:
        """There may be room, or never again."""
        with self.lock:
            self.room.notify_all()
        waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_room(self) -> None:
        """Return when there may be room, or the producer is closed."""
        if not self.has_room():
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._room_waiters.append(waiter)
            await waiter

    async def flush(self, lanes: Iterable[LaneKind] | None = None) -> list[Batch]:
        """Send all that was appended before now (to some lanes), and wait until it ended; those batches."""
        with self.lock:
            chosen = [lane for kind, lane in self._lanes.items() if lanes is None or kind in lanes]
            batches = [batch for lane in chosen for batch in lane.batches()]
        self._flushing += 1
        try:
            for lane in chosen:
                self._pump(lane)
            for batch in batches:
                await until_ended(batch)
        finally:
            self._flushing -= 1
        return batches

    async def close(self, timeout_s: float | None) -> list[tuple[Message, LakemqError]]:
        """Accept no new messages, send all waiting ones, and give up those that aren't stored when the time has
        expired. Returns the messages that weren't stored, and those that failed earlier and whose result nobody has
        read. One that is cancelled has told nobody: the next one does."""
        with self.lock:
            if not self.closed:
                self.closed = True
                for lane in self._lanes.values():
                    if lane.open is not None:  # so that it grows no more
                        lane.ready.append(lane.open)
                        lane.open = None
                self._left.hold(self._lanes.values())
        self._tell_of_room()
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            await self._abandon()
        await self.deliverer.close()
        await self.heartbeats.close()
        await self.cluster.close()
        await self._left.ended()
        return self._unreported.take() + self._left.take()

    async def _abandon(self) -> None:
        """All that is under way or waits fails with `Closed`."""
        with self.lock:
            left = [batch for lane in self._lanes.values() for batch in lane.batches()]
            for lane in self._lanes.values():
                lane.ready.clear()
        for batch in left:
            batch.end(Failed(Closed("the producer was closed before it knew that the message is stored")))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_lone(batch: Batch) -> bool:
    """Whether it is better sent as JSON: that shares a frame with others, and costs the gateway half."""
    return len(batch.bodies) == 1 and len(batch.bodies[0]) < COMPRESSED_FROM_BYTES


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


def _leave_all() -> None:
    for core in list(_cores):
        core.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def read_answer(as_json: bool, topic: str, count: int, delivered: Delivered) -> Outcome:
    """Where the messages of a request are."""
    read: Any = read_messages if as_json else read_ranges
    return read(delivered.broker, topic, count, delivered.json())


def receipt_of(result: SendReceipt | LakemqError) -> SendReceipt:
    """A message's receipt; otherwise raises its error."""
    if isinstance(result, LakemqError):
        raise copy(result)  # the error is that of many messages, and what is raised grows a traceback
    return result
