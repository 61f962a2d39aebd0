"""Writing effects: each cause has one, whoever asks for it and however often."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.model.message import Placed
from lakemq.storage.log.appends import BatchAppend, RowsAppend
from lakemq.storage.log.receiver import Stored
from lakemq.storage.read.row_reader import RowsRead
from lakemq.storage.read.store import Store
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import Row, value_of
from lakemq.storage.state.routing_state import RoutingState
from lakemq.storage.state.topics import Queue, Topic

logger = logging.getLogger(__name__)

AT_ONCE_MAX = 1_000
"""So many effects make a frame: more would keep others from the event loop."""
READ_BYTES_MAX = 16 * 1024 * 1024
"""About so much memory is taken by messages that are read for their effects, at a time."""
COLD_AT_ONCE_MAX = 16
"""So many messages that have left the log are read for their effects at a time."""
EnsureTopic = Callable[[str], Awaitable[Topic]]
ReadCold = Callable[[Sequence[int]], Awaitable[list[FrameRows]]]


async def read_nothing(positions: Sequence[int]) -> list[FrameRows]:
    """What has left the log is nowhere."""
    return []


class Executor:
    """Appends effects. Between the decision to write one and the frame that holds it the cause is
    *claimed*: nobody else writes an effect for it. A write that failed gives the claim back."""

    def __init__(self, store: Store, ensure_topic: EnsureTopic) -> None:
        self.log = store.log
        self.reader = store.reader
        self.plans = store.plans
        self.ids = store.ids
        self.message_id = store.ids.of
        self.ensure_topic = ensure_topic
        self.read_cold: ReadCold = read_nothing
        self.expired = 0
        """So many messages were not to come again, as their time to live was over."""
        self._claimed: set[int] = set()
        self._released: asyncio.Future[None] | None = None

    @property
    def state(self) -> RoutingState:
        """What the log says is pending."""
        return self.log.routing

    def is_pending(self, cause: int) -> bool:
        """Whether the cause has no effect in the log."""
        state = self.state
        return (
            cause in state.receipts.out
            or cause in state.delays
            or cause in state.halves
            or cause in state.nacks
            or cause in state.dead
            or cause in state.redrives
        )

    def is_free(self, cause: int) -> bool:
        """Whether the cause is pending and nobody is writing its effect."""
        return cause not in self._claimed and self.is_pending(cause)

    async def settled(self, causes: Iterable[int]) -> None:
        """Return when nobody is writing an effect of these causes: what is pending then stays so."""
        while not self._claimed.isdisjoint(causes):
            if self._released is None:
                self._released = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._released)

    async def execute(
        self,
        effects: Sequence[tuple[int | None, Row, Queue]],
        with_rows: Sequence[tuple[Row, Queue]] = (),
        holding: Iterable[int] = (),
    ) -> list[Placed | None]:
        """Write `(cause, row, queue)` of causes that are free, and `with_rows`, in one frame.

        The answer is in the order of `effects`; None where the cause wasn't free. A cause of None
        is always written. The causes `holding`, which are free, are claimed meanwhile. Nothing comes
        between the call and the claims. Raises `StoreUnwritable`, with nothing written.
        """
        causes = list(holding)
        self._claimed.update(causes)
        chosen: list[int] = []
        for number, (cause, _, _) in enumerate(effects):
            if cause is None:
                chosen.append(number)
            elif self.is_free(cause):
                self._claimed.add(cause)
                causes.append(cause)
                chosen.append(number)
        placed: list[Placed | None] = [None] * len(effects)
        rows = [effects[number][1] for number in chosen] + [row for row, _ in with_rows]
        queues = [effects[number][2] for number in chosen] + [queue for _, queue in with_rows]
        if rows:
            stored = await self._stored(self.log.append(RowsAppend(rows, queues)), causes)
            for number, where in zip(chosen, stored.placed, strict=False):
                placed[number] = where
        return placed

    def claim_one(self, cause: int) -> None:
        """Claim a cause that is free."""
        self._claimed.add(cause)

    def claim(self, causes: Iterable[int]) -> list[int]:
        """Those of the causes that are free, ascending, each once; they are the caller's now, to give
        to `execute_claimed` or to `release`."""
        claimed, out = self._claimed, self.state.receipts.out
        pending = (each for each in causes if each in out or self.is_pending(each))
        free = sorted({cause for cause in pending if cause not in claimed})
        self._claimed.update(free)
        return free

    async def execute_claimed(self, append: RowsAppend | BatchAppend, causes: Sequence[int]) -> Stored:
        """Write what holds the effects of these claimed causes. Raises `StoreUnwritable`, with none written."""
        return await self._stored(self.log.append(append), causes)

    def release(self, causes: Iterable[int]) -> None:
        """Give claims back."""
        self._claimed.difference_update(causes)
        if self._released is not None:
            self._released.set_result(None)
            self._released = None

    async def _stored(self, storing: asyncio.Future[Stored], causes: Sequence[int]) -> Stored:
        # A claim ends with the write, not with who waits for it: that may be cancelled before.
        storing.add_done_callback(lambda _: self.release(causes))
        return await asyncio.shield(storing)

    async def read_some(self, positions: Iterable[int]) -> RowsRead:
        """The messages at these positions, in their order, as many as `READ_BYTES_MAX` allows, but of
        one frame at least. What isn't in the log is lost."""
        wanted = sorted(set(positions))
        plans = await self.plans.rows(wanted, asyncio.to_thread)
        if self.reader.cached_rows(plans):
            found = self.reader.read_rows(plans, READ_BYTES_MAX)
        else:
            found = await asyncio.to_thread(self.reader.read_rows, plans, READ_BYTES_MAX)
        planned = {position for plan in plans for position in plan.positions}
        planned.difference_update(found.take_gone(self.log.min_position))
        await self._add_cold([position for position in wanted if position not in planned], found)
        if found.damaged:
            logger.error(
                "can't read %d messages, because the log is damaged: %s …", len(found.damaged), found.damaged[:5]
            )
        return found

    async def _add_cold(self, positions: list[int], found: RowsRead) -> None:
        """Those of the messages that have left the log, from the lake; the rest is lost. While the lake can't be read
        they are left, as long as there is anything else: others don't wait for them."""
        cold = bisect_left(positions, self.log.min_position)
        now = min(cold, COLD_AT_ONCE_MAX)
        try:
            parts = await self.read_cold(positions[:now]) if now else []
        except LakemqError:
            if not (found.parts or found.damaged or found.left or positions[cold:]):
                raise
            parts, now = [], 0
        there = {part.frame.meta.first_position for part in parts}
        found.parts.extend(parts)
        found.left.extend(positions[now:cold])
        found.lost.extend(position for position in [*positions[:now], *positions[cold:]] if position not in there)

    async def read_all(self, positions: Iterable[int]) -> AsyncIterator[FrameRows]:
        """Those of the messages that can be read, in parts, each to be let go of before the next."""
        left = list(positions)
        while left:
            found = await self.read_some(left)
            for part in found.parts:
                yield part
            left = found.left

    async def read_one(self, position: int) -> FrameRows | None:
        """The message, in a part of its own; None where there is none. Raises `LogDamaged`."""
        found = await self.read_some([position])
        if found.damaged:
            raise LogDamaged(f"the message at position {position} can't be read: the log is damaged")
        return found.parts[0] if found.parts else None


def origin_of(row: Row, message_id: str) -> str:
    """The id of the first message that this is a copy of, or its own."""
    return value_of(row, "origin_message_id") or message_id
