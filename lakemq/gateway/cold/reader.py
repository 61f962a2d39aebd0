"""The lake as the gateway's event loop sees it: everything is read in threads of its own, which give
way to all others."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar, TypeVarTuple

import pyarrow as pa

from lakemq.model.errors import LakeUnreadable
from lakemq.settings import Settings
from lakemq.storage.lake.bounds import Between
from lakemq.storage.lake.cold_rows import ColdSlice, as_parts, as_slice, as_slices
from lakemq.storage.lake.history import ColdPull, History
from lakemq.storage.read.spans import Span
from lakemq.storage.read.store import Store
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.segment_index import QueueKey
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.topics import Queue
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

logger = logging.getLogger(__name__)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREADS = 2
NICENESS = 10
BEGINNINGS_MAX = 10_000
WAITING_MAX = 2_000
"""Pulls that wait for a thread."""
LOOKING_MAX = 1_000
"""Queues whose beginnings are looked for at a time, where nobody waits for that."""
BEGINNING_FRESH_S = 30.0
"""Where a queue begins in the lake is looked at again after so long: retention may have moved it."""


FAILED_S = 5.0
"""A lake that can't be read isn't looked at again so soon by who can do without."""
FAULT_S = 60.0
"""So long it is told that it couldn't be."""


class _Beginning(NamedTuple):
    """Where a queue began in the lake (None: not there), and since when; when that was looked at (the loop's time), and
    where queue and log began then."""

    offset: int | None
    stored_ms: int | None
    looked_s: float
    floor: int
    min_position: int


class ColdReader:
    """What has left one broker's log. Lives on the event loop."""

    def __init__(self, settings: Settings, store: Store) -> None:
        log = self._log = store.log
        self._plans = store.plans
        lake = settings.lake
        self.history = History(lake.dir, store.ids, lake.cache_bytes, lambda: log.identity.log_id, lake.verify)
        self._threads = ThreadPoolExecutor(THREADS, "cold", _give_way)
        self._beginnings: OrderedDict[QueueKey, _Beginning] = OrderedDict()
        self._looking: dict[QueueKey, asyncio.Task[int]] = {}
        self._failed_s = -FAILED_S
        self._fault: tuple[float, str] | None = None
        self._newest: OrderedDict[tuple[QueueKey, int], int] = OrderedDict()
        """When the message with that offset was stored, of queues of which the log has none any more."""
        self._gate = Gate(THREADS, WAITING_MAX, settings.gateway.client_share)
        self.messages_read = 0

    @property
    def waiting(self) -> int:
        """Reads that wait for their turn."""
        return self._gate.waiting

    async def run(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Do what takes long beside reading, in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _ask(self, read: Callable[[], T]) -> T:
        """What `read` finds in the lake. Raises `LakeUnreadable`."""
        try:
            found = await self.run(read)
        except LakeUnreadable as error:
            self._fault = asyncio.get_running_loop().time(), error.detail
            raise
        self._fault = None
        return found

    def degraded(self) -> list[str]:
        """Why what has left the log can't be read, a line; nothing where nobody has wanted to for a minute."""
        if self._fault is None or asyncio.get_running_loop().time() - self._fault[0] > FAULT_S:
            return []
        return [f"what has left the log can't be read: {self._fault[1]}"]

    def forget(self) -> None:
        """Keep nothing of the lake in memory: messages were erased."""
        self.history.forget()
        self._beginnings.clear()
        self._newest.clear()

    def close(self) -> None:
        """Read no more. What is under way ends by itself."""
        for task in self._looking.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Where queues begin ----------------------------------------------------------------------

    async def min_offset(self, queue: Queue) -> int:
        """The queue's first offset that can be read, in the lake or the log. Raises `LakeUnreadable`."""
        if not self._may_be_cold(queue):
            return queue.begin_offset
        known = self._known(queue)
        if known is not None:
            return queue.begin_offset if known.offset is None else known.offset
        return await asyncio.shield(self._look(queue))

    async def min_offset_or_logs(self, queue: Queue) -> int:
        """`min_offset`, but where the log begins when the lake can't be read: who asks for a topic may
        want nothing else of it."""
        try:
            return await self.min_offset(queue)
        except LakeUnreadable:
            return queue.begin_offset

    async def spans(self, queues: Sequence[Queue], offsets: Sequence[int], client: Client = None) -> list[Span]:
        """When the oldest and the newest message of each queue that can be read were stored, in the lake or the log.
        Of `Plans.QUEUES_AT_ONCE` at most. `offsets`: where each begins. Raises `LogDamaged`, `Busy`."""
        in_log = await self._plans.spans(queues, self.run)
        # One after the other: that takes one thread, and leaves others to who reads messages.
        return [await self._span(*each, client) for each in zip(queues, offsets, in_log, strict=True)]

    async def _span(self, queue: Queue, min_offset: int, in_log: Span, client: Client) -> Span:
        known = self._beginnings.get(queue.key)
        if known is None or known.offset != min_offset or min_offset >= queue.min_offset:
            return in_log
        if in_log.newest_ms is not None:
            return Span(known.stored_ms, in_log.newest_ms)
        return Span(known.stored_ms, await self._newest_ms(queue, client))

    async def _newest_ms(self, queue: Queue, client: Client) -> int | None:
        """When the last message of a queue was stored, of which the log has none any more; None: nobody can tell."""
        last = queue.before_gap(queue.end_offset - 1)
        if (known := self._newest.get((queue.key, last))) is not None:
            return known
        held = self._log.retention.held_position
        try:
            async with self._gate.place(client):
                found = await self._ask(
                    lambda: self.history.first(queue.topic, queue.queue_id, Between(last, last), held)
                )
        except LakeUnreadable:
            return None
        if found is None or found.stored_ms is None:
            return None
        self._newest[queue.key, last] = found.stored_ms
        if len(self._newest) > BEGINNINGS_MAX:
            self._newest.popitem(last=False)
        return found.stored_ms

    def known_min_offset(self, queue: Queue) -> int:
        """`min_offset` as far as it is known without a wait; it is looked for meanwhile."""
        if not self._may_be_cold(queue):
            return queue.begin_offset
        late = asyncio.get_running_loop().time() - self._failed_s > FAILED_S
        if self._known(queue) is None and late and len(self._looking) < LOOKING_MAX:
            self._look(queue)
        known = self._beginnings.get(queue.key)
        if known is None or known.offset is None or known.floor != queue.floor:
            return queue.begin_offset
        return known.offset

    def _may_be_cold(self, queue: Queue) -> bool:
        return self._log.min_position > 0 and queue.floor < queue.min_offset

    def _known(self, queue: Queue) -> _Beginning | None:
        known = self._beginnings.get(queue.key)
        if known is None or known.floor != queue.floor:
            return None
        if known.offset is None and known.min_position != self._log.min_position:
            return None
        fresh = asyncio.get_running_loop().time() - known.looked_s < BEGINNING_FRESH_S
        return known if fresh else None

    def _look(self, queue: Queue) -> asyncio.Task[int]:
        looking = self._looking.get(queue.key)
        if looking is None:
            looking = asyncio.get_running_loop().create_task(self._look_now(queue))
            self._looking[queue.key] = looking
            looking.add_done_callback(lambda done: self._looked(queue, done))
        return looking

    async def _look_now(self, queue: Queue) -> int:
        floor, held = queue.floor, self._log.retention.held_position
        between, min_position = Between(floor, queue.min_offset - 1), self._log.min_position
        first = await self._ask(lambda: self.history.first(queue.topic, queue.queue_id, between, held))
        now_s = asyncio.get_running_loop().time()
        offset, stored_ms = (None, None) if first is None else first
        self._beginnings[queue.key] = _Beginning(offset, stored_ms, now_s, floor, min_position)
        while len(self._beginnings) > BEGINNINGS_MAX:
            self._beginnings.popitem(last=False)
        return queue.begin_offset if offset is None else offset

    def _looked(self, queue: Queue, done: asyncio.Task[int]) -> None:
        self._looking.pop(queue.key, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failed_s = asyncio.get_running_loop().time()
            logger.warning("can't see where %s queue %d begins in the lake: %s", queue.topic, queue.queue_id, error)

    # Reading ---------------------------------------------------------------------------------

    async def pull(
        self,
        queue: Queue,
        offset: int,
        messages_max: int,
        bytes_max: int,
        finish: Callable[[list[ColdSlice], int], T],
        client: Client = None,
    ) -> T | None:
        """What `finish` makes, in the thread that read them, of the queue's next messages from `offset` on, as
        far as they have left the log, and of the offset to go on with, in the client's turn; None: there is no
        lake. Raises `LakeUnreadable`, `Busy`."""
        wanted = ColdPull(queue.topic, queue.queue_id, offset, queue.min_offset, messages_max, bytes_max)
        held = self._log.retention.held_position

        def read() -> tuple[int, T] | None:
            found = self.history.pull(wanted, held)
            return None if found is None else (sum([part.count for part in found[0]]), finish(*found))

        async with self._gate.place(client):
            done = await self._ask(read)
        if done is None:
            return None
        self.messages_read += done[0]
        return done[1]

    async def slices(
        self, queue: Queue, offset: int, messages_max: int, bytes_max: int, client: Client = None
    ) -> tuple[list[Slice], int] | None:
        """`pull`, for who reads the log's messages: as slices of frames, which are dense."""

        def finish(parts: list[ColdSlice], reached: int) -> tuple[list[Slice], int]:
            return [one for part in parts for one in as_slices(part)], reached

        return await self.pull(queue, offset, messages_max, bytes_max, finish, client)

    async def messages(self, positions: Sequence[int]) -> pa.RecordBatch | None:
        """The messages at these positions, which have left the log, ascending and not none, as
        `cold_rows.COLD`; None: there is no lake that holds them. Raises `LakeUnreadable`."""
        held = self._log.retention.held_position
        found = await self._ask(lambda: self.history.messages(positions, held))
        self.messages_read += 0 if found is None else found.num_rows
        return found

    async def message(self, position: int) -> ColdSlice | None:
        """The message at that position, which has left the log; None: it isn't in the lake either.
        Raises `LakeUnreadable`."""
        found = await self.messages([position])
        return None if found is None or not found.num_rows else as_slice(found)

    async def parts(self, positions: Sequence[int]) -> list[FrameRows]:
        """`messages`, for who makes copies of the log's rows."""
        batch = await self.messages(positions)
        return [] if batch is None else as_parts(batch)

    async def offset_at_time(self, queue: Queue, timestamp_ms: int) -> int:
        """The first offset of the queue that was stored at or after that time, in the lake or the log;
        its end if none was. Raises `LakeUnreadable`."""
        while True:
            position = await self._plans.position_at_time(timestamp_ms, self.run)
            least = self._log.min_position
            if position <= least and self._may_be_cold(queue):
                between, held = Between(queue.floor, queue.min_offset - 1), self._log.retention.held_position
                first = await self._ask(
                    lambda: self.history.first(queue.topic, queue.queue_id, between, held, timestamp_ms)  # noqa: B023
                )
                if first is not None:
                    return first.offset
            offset = await self._plans.offset_at_position(queue, position, self.run)
            if self._log.min_position <= max(position, least):  # else it has left the log meanwhile, for the lake
                return min(offset, queue.end_offset)

    async def positions_of_key(
        self, topic: str, key: str, times: tuple[int, int], messages_max: int
    ) -> tuple[list[int], int]:
        """The positions of the newest messages with that key by the lake's index, descending, and the
        position up to which it goes: 0 when there is none. Raises `LakeUnreadable`."""
        held = self._log.retention.held_position
        found = await self._ask(lambda: self.history.positions_of_key(topic, key, times, messages_max, held))
        return ([], 0) if found is None else found


def _give_way() -> None:
    """Let this thread wait while the event loop has work, on a machine where threads have priorities."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
