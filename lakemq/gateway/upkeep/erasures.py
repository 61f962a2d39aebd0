"""Erasures of a replica: each is a record in the log, carried out in the replica's own files.

The primary writes the record once what is to be erased is in sealed segments, so whoever has the record can carry it
out. A follower does so when the record is confirmed: no switch undoes it then. What a crash has left to be done a start
does, before anything is served.

What was cut off the log and is kept is shown to nobody who asks this replica. So where it can't be read or written an
erasure isn't done, and is tried again, but keeps no other one from being carried out, and no message from being shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.gateway.upkeep.erased_mark import ErasedMark
from lakemq.model.errors import Busy, StoreUnwritable
from lakemq.model.names import ERASURE_TOPIC
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.mend.erasure import Erased, Eraser, KeptLeft
from lakemq.storage.read.store import Store
from lakemq.storage.segment.rows import make_row
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.erasure_record import Range, merge_ranges, pack_erasure, to_bitmap, unpack_erasure
from lakemq.storage.state.topics import Queue, Topic

logger = logging.getLogger(__name__)

RETRY_S = 1.0
RETRY_KEPT_S = 10.0
OTHERS_TIMES = 4
"""Others may take so many times as long as it took here, and `replication.confirm_ms_max` beside that."""


class _Wanted(NamedTuple):
    """What is asked for: ranges of the log's positions, and of those that have left it, with the positions of each."""

    ranges: list[Range]
    positions: BitMap64
    below_ranges: list[Range]
    below: BitMap64


class Erasures:
    """Those of one broker. Lives on the log's event loop."""

    def __init__(
        self,
        store: Store,
        eraser: Eraser,
        directory: Path,
        forget: Callable[[], Awaitable[object]],
    ) -> None:
        """`forget`: let go of what was read of messages that are erased now, outside the log."""
        log = self._log = store.log
        self._reader = store.reader
        self._plans = store.plans
        self._eraser = eraser
        self._forget = forget
        self._mark = ErasedMark(log.files, directory)
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._required = 0
        self._in_log = 0
        """So many records are carried out in the log's own files."""
        self._left: int | None = None
        """The first of them that isn't in what was cut off the log; None: all are."""
        self._left_positions = BitMap64()
        """What may still stand there."""
        self._kept_problem: str | None = None
        self._again_s = 0.0
        self.told: Callable[[], int] = lambda: 0
        """Of a follower: how many its primary says are to be carried out before anything is served."""
        self.problem: str | None = None

    def open(self) -> None:
        """Find how far this replica is. Raises `OSError`."""
        end = self._required = self._end
        self._in_log = min(self._mark.read(self._log.identity.log_id), end)  # the log may have been cut

    @property
    def done(self) -> int:
        """So many records are carried out here, in all files."""
        return self._in_log if self._left is None else self._left

    @property
    def _queue(self) -> Queue | None:
        topic = self._log.topics.find(ERASURE_TOPIC)
        return None if topic is None else topic.queues[0]

    @property
    def _end(self) -> int:
        queue = self._queue
        return 0 if queue is None else queue.next_offset

    @property
    def is_behind(self) -> bool:
        """Whether the log says more than is carried out here."""
        return self.done < self._end

    # The primary's ---------------------------------------------------------------------------

    async def erase(
        self,
        ranges: list[Range],
        system_topic: Callable[[str], Awaitable[Topic]],
        until_others: Callable[[int, float], Awaitable[None]],
    ) -> Erased:
        """Erase the messages in these ranges of positions, all below the log's end: on return they are in none of the
        log's files any more, here and at all in sync. `until_others`: wait until they have carried out all records
        below an offset, for so many seconds at most.

        Raises `StoreUnwritable`, also where they may still stand in what was cut off the log, and `LogDamaged`: once
        the record is written, what is left is done as soon as it can be, and the same request says when.
        """
        loop, log = asyncio.get_running_loop(), self._log
        wanted = await asyncio.to_thread(_want, ranges, log.min_position, log.next_position)
        # What has left the log is erased elsewhere, but whether a dead letter is open is known here alone.
        letters = (wanted.below & log.routing.dead) | (wanted.below & log.routing.discarded)
        body = await asyncio.to_thread(_body_of, wanted, letters)
        async with self._turn:
            await self._eraser.seal(wanted.positions)
            queue = (await system_topic(ERASURE_TOPIC)).queues[0]
            stored = await asyncio.shield(log.append(RowsAppend([make_row(body=body)], [queue])))
            await log.until_confirmed()
            begun_s, offset = loop.time(), stored.placed[0].queue_offset
            erased, left = await self._erase(wanted.positions)
            await self._carry_out_below(offset)  # what could not be before
            if left is not None:
                self._leave(offset, wanted.positions)
            await self._note_done(offset + 1)
            if left is not None:
                raise left
            took_s = loop.time() - begun_s
        await until_others(offset + 1, log.confirm_ms_max / 1000 + OTHERS_TIMES * took_s)
        return erased._replace(below=erased.below + len(wanted.below))

    # Carrying out ----------------------------------------------------------------------------

    async def finish(self) -> None:
        """Carry out all that the log says, before anything is served. What can't be now is tried again later."""
        await self._try(self._end)

    async def go_on(self) -> None:
        """Try again what could not be carried out."""
        if self.is_behind and not self._turn.locked():
            await self._try(self._end)

    def follow(self) -> None:
        """Carry out each as soon as it is confirmed."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Carry out no more. A segment that is being written again is waited for: nobody else may find it half done,
        such as the next process."""
        self._eraser.stop()
        async with self._turn:
            if self._task is not None:
                self._task.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        log = self._log
        while True:
            moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            log.confirmed.waiters.add(moved)
            if self._is_due:
                await self._try(self._end)
            try:
                # One that can't be carried out yet is tried again in a while.
                await asyncio.wait([moved], timeout=RETRY_S if self.is_behind else None)
            finally:
                log.confirmed.waiters.discard(moved)

    @property
    def _is_due(self) -> bool:
        return self._in_log < self._end or (
            self._left is not None and asyncio.get_running_loop().time() >= self._again_s
        )

    async def _try(self, end: int) -> None:
        try:
            async with self._turn:
                await self._carry_out_below(end)
        except Exception as error:  # noqa: BLE001  whatever it is, it is said, and tried again
            self._say(f"an erasure can't be carried out now: {error or repr(error)}")
        else:
            self._say(None)

    def _say(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem

    async def _carry_out_below(self, end: int) -> None:
        """Carry out the records below that offset, as far as they may be. Raises `LakemqError`, `OSError`."""
        await self._try_kept()
        while self._in_log < end and (queue := self._queue) is not None:
            at = max(self._in_log, queue.min_offset)
            plan = await self._plans.queue(queue, at, 1, 1, asyncio.to_thread)
            found = await asyncio.to_thread(self._reader.read, plan)
            if found and not await self._carry_out(found[0]):
                return
            # What is below the log's beginning has left it, and so has what it erased.
            await self._note_done(max(plan.end, at + 1))

    async def _carry_out(self, record: Slice) -> bool:
        """Whether it could be yet."""
        log = self._log
        if self._task is not None and record.first_position >= log.confirmed_position:
            return False
        positions = await asyncio.to_thread(_read, record)
        if self._task is not None and not self._eraser.are_sealed(positions):
            return False
        done, left = await self._erase(positions)
        if left is not None:
            self._leave(record.first_queue_offset, positions)
        logger.info("an erasure of %d messages is carried out", done.erased)
        return True

    async def _erase(self, positions: BitMap64) -> tuple[Erased, KeptLeft | None]:
        """What was done in the log, and why that isn't all."""
        try:
            erased = await self._eraser.erase(positions)
        except KeptLeft as left:
            self._say_of_kept(left.detail)
            return left.erased, left
        if self._left is None:
            self._kept_problem = None
        return erased, None

    def _leave(self, offset: int, positions: BitMap64) -> None:
        """That record is carried out in the log alone: another time in what was cut off it."""
        self._left = offset if self._left is None else self._left
        self._left_positions |= positions
        self._again_s = asyncio.get_running_loop().time() + RETRY_KEPT_S

    async def _try_kept(self) -> None:
        """Carry out what is left in what was cut off the log, if it is time for that."""
        now_s = asyncio.get_running_loop().time()
        if self._left is None or now_s < self._again_s:
            return
        try:
            await self._eraser.erase_kept(self._left_positions)
        except KeptLeft as left:
            self._again_s = now_s + RETRY_KEPT_S
            self._say_of_kept(left.detail)
        else:
            self._left, self._left_positions, self._kept_problem = None, BitMap64(), None
            await self._note_done(self._in_log)

    async def _note_done(self, end: int) -> None:
        await self._forget()
        done = end if self._left is None else self._left
        await asyncio.to_thread(self._mark.leave, self._log.identity.log_id, done)
        self._in_log = end

    def _say_of_kept(self, problem: str) -> None:
        if problem != self._kept_problem:
            logger.warning("an erasure is not done: %s", problem)
        self._kept_problem = problem

    # What is said ----------------------------------------------------------------------------

    def check_reads(self) -> None:
        """Raise `Busy` where messages can't be shown: this replica was away while some of them were erased."""
        if self._in_log < max(self._required, self.told()):
            raise Busy("this follower has to carry out erasures before it shows messages")

    def degraded(self) -> list[str]:
        """What is wrong, a line each."""
        kept = [] if self._kept_problem is None else [f"an erasure is not done: {self._kept_problem}"]
        return kept if self.problem is None else [self.problem, *kept]


def _want(ranges: list[Range], begin: int, end: int) -> _Wanted:
    within, below = merge_ranges(ranges, begin, end), merge_ranges(ranges, 0, begin)
    return _Wanted(within, to_bitmap(within), below, to_bitmap(below))


def _body_of(wanted: _Wanted, letters: BitMap64) -> bytes:
    """The record: whole ranges, as they are no more than were asked for, however many letters there are."""
    return pack_erasure([*(each for each in wanted.below_ranges if letters.range_cardinality(*each)), *wanted.ranges])


def _read(record: Slice) -> BitMap64:
    try:
        (body,) = record.frame.content.values("body", record.row, 1)
        return unpack_erasure(body)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnwritable(f"the erasure at position {record.first_position} can't be read: {error!r}") from None
