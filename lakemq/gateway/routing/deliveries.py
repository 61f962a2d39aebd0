"""Delivering scheduled messages on their millisecond, and moving on those whose segment leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.gateway.effects.copies import Scheduled, as_delivered, as_moved, gather, row_delivered, to_batch
from lakemq.gateway.effects.due_loop import DueLoop
from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor
from lakemq.model.names import DECISION_TOPIC, SCHEDULE_TOPIC
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.appends import BatchAppend, RowsAppend
from lakemq.storage.segment.content import ROWS_MAX
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import make_row, value_of
from lakemq.storage.state.decision_record import Decision, unpack_decisions
from lakemq.storage.state.dues import Dues
from lakemq.storage.state.topics import Queue

logger = logging.getLogger(__name__)

LIGHT_BYTES = 256 * 1024
"""So much is copied row by row at most: large messages are written in a thread."""
DAMAGED_MS = 60_000
"""What can't be read is tried again so much later."""


class _Copies(NamedTuple):
    """What delivers scheduled messages: the copies of these causes; and those whose topic is gone, with their dues."""

    append: RowsAppend | BatchAppend
    causes: list[int]
    dropped: dict[int, int | None]


class Deliveries:
    """Holds what is due within the lead, and writes each to its topic when it is due."""

    def __init__(self, executor: Executor, clock: Clock, lead_ms: int) -> None:
        self._executor = executor
        self._log = executor.log
        self._clock = clock
        self._lead_ms = lead_ms
        self.dues = Dues()
        """What is due within the lead. Who takes a cause from it looks whether it is still pending."""
        self.delivered = 0
        self.loop = DueLoop(self, "scheduled messages could not be delivered")

    async def start(self) -> None:
        """Take up what was decided, and what can be anticipated, before the process began."""
        state = self._executor.state
        state.on_delays = self._anticipate
        state.on_decided = self._hold
        await self._take_up_decisions()
        await self._anticipate_again()
        self.loop.start()

    async def _take_up_decisions(self) -> None:
        """Hold what is decided (D) and not delivered, as its records in the log say."""
        state = self._executor.state
        left = state.decided.copy()
        found: set[int] = set()
        async for part in self._executor.read_all(list(state.decisions)):
            for number in part.numbers:
                decisions = unpack_decisions(value_of(part.row(number), "body"))
                still_open = [decision for decision in decisions if decision.cause in left]
                causes = BitMap64([decision.cause for decision in still_open])
                if causes:
                    found.add(part.frame.meta.first_position + number)
                    state.decisions[part.frame.meta.first_position + number] = causes
                left -= causes
                self._hold(still_open)
        for position in set(state.decisions) - found:
            del state.decisions[position]
        # A record that was lost to damage decided no more than what the message says itself.
        await self._hold_by_their_own(left)

    async def _hold_by_their_own(self, causes: Iterable[int]) -> None:
        """Hold scheduled messages until the time that they are due."""
        async for part in self._executor.read_all(causes):
            self._hold(_dues_of(part))

    async def _anticipate_again(self) -> None:
        """What came in within the lead before the process ended may have been held only in memory."""
        if not self._lead_ms:
            return
        executor = self._executor
        since = await executor.plans.position_at_time(self._clock.now_ms() - self._lead_ms, asyncio.to_thread)
        delays = executor.state.delays
        recent = list(delays.iter_equal_or_larger(since)) if delays and delays.max() >= since else []
        horizon = self._clock.now_ms() + self._lead_ms
        async for part in executor.read_all(recent):
            self._hold([decision for decision in _dues_of(part) if decision.due_ms <= horizon])

    async def close(self) -> None:
        """Deliver no more."""
        await self.loop.close()

    # Holding ---------------------------------------------------------------------------------

    def _anticipate(self, delays: list[tuple[int, int]]) -> None:
        """Of `(cause, due)` hold what is due within the lead: that it is delivered then is certain."""
        if self._lead_ms:
            horizon = self._log.now_ms() + self._lead_ms
            self._hold([Decision(cause, due) for cause, due in delays if due <= horizon])

    def _hold(self, decisions: Sequence[Decision]) -> None:
        earliest = self.dues.earliest()
        for cause, due in decisions:
            self.dues.add(due, (cause,))
        first = self.dues.earliest()
        if first is not None and (earliest is None or first < earliest):
            self.loop.look_again()

    # Delivering ------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """What is due by then is delivered."""
        return self._clock.now_ms()

    async def do(self, positions: list[int]) -> None:
        """Deliver what these causes are of."""
        await self.deliver(positions)

    def put_back(self, positions: list[int], due_ms: int) -> None:
        """Hold them until then."""
        self.dues.add(due_ms, positions)

    async def deliver(self, causes: Iterable[int]) -> int:
        """Write the copies of those causes that are pending; returns how many that were.

        Raises `StoreUnwritable`: then those that were not written are pending still. Those that can't
        be read now are held again.
        """
        claimed = self._executor.claim(causes)
        kept = set(claimed)
        left = claimed
        try:
            while left:
                found = await self._executor.read_some(left)
                parts, early = _split(found.parts, self._clock.now_ms())
                # Somebody decided too soon: the message says itself when it is due.
                self._put_back(early, kept)
                again = self._clock.now_ms() + DAMAGED_MS
                self._put_back([Decision(cause, again) for cause in found.damaged], kept)
                if parts:
                    await self._write(parts, kept)
                if found.lost:
                    await self._drop_lost(found.lost, kept)
                left = found.left
        finally:
            self._executor.release(kept)
        return len(claimed)

    def _put_back(self, decisions: Sequence[Decision], kept: set[int]) -> None:
        """Hold them again, unclaimed."""
        causes = [decision.cause for decision in decisions]
        kept.difference_update(causes)
        self._executor.release(causes)
        self._hold(decisions)

    async def _write(self, parts: list[FrameRows], kept: set[int]) -> None:
        """Write copies, and take the causes that others answer for from now on out of `kept`."""
        few = sum([len(part.numbers) for part in parts]) <= ROWS_MAX
        few = few and sum([part.frame.content.memory_bytes for part in parts]) <= LIGHT_BYTES
        append, causes, dropped = self._copy_rows(parts) if few else self._copy_columns(parts)
        if causes:
            kept.difference_update(causes)
            await self._executor.execute_claimed(append, causes)
            self.delivered += len(causes)
        if dropped:
            await self._drop(dropped, kept)

    def _copy_rows(self, parts: list[FrameRows]) -> _Copies:
        """The copies of a few messages."""
        append = RowsAppend([], [])
        copies = _Copies(append, [], {})
        for position, row in [pair for part in parts for pair in part.rows().items()]:
            queue = self._target(value_of(row, "real_topic"), value_of(row, "real_queue_id"), position)
            if queue is None:
                copies.dropped[position] = value_of(row, "deliver_at_ms")
            else:
                append.rows.append(row_delivered(row, position, self._executor.ids))
                append.queues.append(queue)
                copies.causes.append(position)
        return copies

    def _copy_columns(self, parts: list[FrameRows]) -> _Copies:
        """The copies of many messages, column by column."""
        scheduled = gather(parts)
        columns = as_delivered(scheduled, self._executor.ids)
        positions: list[int] = scheduled.positions.to_pylist()
        queues = self._targets(scheduled)
        keyed = [(queue.key, number) for number, queue in enumerate(queues) if queue is not None]
        order = [number for _, number in sorted(keyed)]
        groups: dict[Queue, int] = {}
        for number in order:
            queue = queues[number]
            assert queue is not None
            groups[queue] = groups.get(queue, 0) + 1
        batch = to_batch(columns, None if order == list(range(len(positions))) else order)
        dues = scheduled.columns["deliver_at_ms"].to_pylist()
        dropped = {positions[number]: dues[number] for number, queue in enumerate(queues) if queue is None}
        append = BatchAppend.of(batch, list(groups.items()))
        return _Copies(append, [positions[number] for number in order], dropped)

    def _targets(self, scheduled: Scheduled) -> list[Queue | None]:
        """The queue of each; None where its topic was deleted."""
        topics, queue_ids = (scheduled.columns[name].to_pylist() for name in ("real_topic", "real_queue_id"))
        positions: list[int] = scheduled.positions.to_pylist()
        return [self._target(*each) for each in zip(topics, queue_ids, positions, strict=True)]

    def _target(self, name: str, queue_id: int, position: int) -> Queue | None:
        topic = self._log.topics.find_for(name, position)
        # In a log of an earlier version a topic that was deleted and made again may have fewer queues.
        return None if topic is None else topic.queues[queue_id % len(topic.queues)]

    async def _drop(self, dues: dict[int, int | None], kept: set[int]) -> None:
        """Those whose topic was deleted, or that damage took, are done (L): a row each says so."""
        topic = await self._executor.ensure_topic(DECISION_TOPIC)
        rows = {cause: make_row(body=b"", tag="drop", cause=cause, deliver_at_ms=due) for cause, due in dues.items()}
        kept.difference_update(dues)
        self._executor.release(dues)
        await self._executor.execute([(cause, row, topic.queues[0]) for cause, row in rows.items()])

    async def _drop_lost(self, lost: list[int], kept: set[int]) -> None:
        logger.error("%d scheduled messages are lost", len(lost))
        await self._drop(dict.fromkeys(lost), kept)

    # Moving on -------------------------------------------------------------------------------

    async def clear_below(self, end: int) -> bool:
        """Schedule anew (M) all that waits below position `end`; whether nothing waits there now."""
        begin = 0
        while True:
            movable = self._executor.claim(self._undecided(begin, end))
            if not movable:
                delays = self._executor.state.delays
                return not delays or delays.min() >= end
            begin = movable[0]  # what waits before it was passed over, and would be again
            kept = set(movable)
            try:
                if not await self._move(movable, kept):
                    return False
            finally:
                self._executor.release(kept)

    def _undecided(self, begin: int, end: int) -> list[int]:
        """The first that wait there and aren't decided. No more of them are looked at, as millions may wait."""
        state = self._executor.state
        waiting = takewhile(lambda cause: cause < end, state.delays.iter_equal_or_larger(begin))
        return list(islice((cause for cause in waiting if cause not in state.decided), AT_ONCE_MAX))

    async def _move(self, causes: list[int], kept: set[int]) -> bool:
        """Whether that got on."""
        found = await self._executor.read_some(causes)
        if found.lost:
            await self._drop_lost(found.lost, kept)
        topic = await self._executor.ensure_topic(SCHEDULE_TOPIC)
        # From here to the write nothing comes in between: a topic of a name could be made again.
        parts, outlived = self._without_outlived(found.parts)
        if parts:
            scheduled = gather(parts)
            columns = as_moved(scheduled, self._executor.ids)
            groups = [(topic.queues[0], scheduled.count_rows)]
            moved = scheduled.positions.to_pylist()
            kept.difference_update(moved)
            append = BatchAppend.of(to_batch(columns), groups)
            await self._executor.execute_claimed(append, moved)
        if outlived:
            await self._drop(outlived, kept)
        return bool(found.parts or found.lost)

    def _without_outlived(self, parts: list[FrameRows]) -> tuple[list[FrameRows], dict[int, int | None]]:
        """The rows that go on waiting; and with their dues those whose topic was deleted: moved beyond the place where
        another of its name is made, maybe just now, they would be taken for its own."""
        topics, outlived = self._log.topics, dict[int, int | None]()
        for part in parts:
            names = part.values("real_topic")
            for (position, due), name in zip(_dues_of(part), names, strict=True):
                if topics.find_for(name, position) is None:
                    outlived[position] = due
        left = [part._replace(numbers=_without(part, outlived)) for part in parts] if outlived else parts
        return [part for part in left if part.numbers], outlived


def _without(part: FrameRows, positions: Container[int]) -> list[int]:
    first = part.frame.meta.first_position
    return [number for number in part.numbers if first + number not in positions]


def _dues_of(part: FrameRows) -> list[Decision]:
    """When each of the rows is due."""
    first, dues = part.frame.meta.first_position, part.values("deliver_at_ms")
    return [Decision(first + number, due) for number, due in zip(part.numbers, dues, strict=True)]


def _split(parts: list[FrameRows], now_ms: int) -> tuple[list[FrameRows], list[Decision]]:
    """The rows that are due at `now_ms`, and the others with their own due times."""
    due: list[FrameRows] = []
    early: list[Decision] = []
    for part in parts:
        late: list[int] = []
        for number, decision in zip(part.numbers, _dues_of(part), strict=True):
            if decision.due_ms <= now_ms:
                late.append(number)
            else:
                early.append(decision)
        if late:
            due.append(FrameRows(part.frame, late))
    return due, early
