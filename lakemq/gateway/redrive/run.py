"""One redrive on its way: batches at its rate, each a frame of copies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.copies import gather, to_batch
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.redrive.dead_letters import find_copies
from lakemq.gateway.redrive.progress import Progress
from lakemq.gateway.redrive.records import FAILED, done_row
from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.model.names import REDRIVE_TOPIC, retry_topic
from lakemq.storage.log.appends import BatchAppend
from lakemq.storage.segment.frame_rows import FrameRows

logger = logging.getLogger(__name__)

BATCH_MESSAGES = 1_000
BATCH_S = 0.05
LOOK_S = 1.0
AGAIN_S = 1.0
"""After a write that failed."""

T = TypeVar("T")


async def again_while(step: Callable[[], Awaitable[T]], passes: Callable[[Exception], bool]) -> T:
    """What the step returns, tried again each second while it fails by what may pass. Raises what doesn't."""
    while True:
        try:
            return await step()
        except (LakemqError, OSError) as error:
            if not passes(error):
                raise
            logger.warning("a redrive is waiting; retrying: %s", error)
            await asyncio.sleep(AGAIN_S)


class _Copies(NamedTuple):
    """A frame of copies of the dead letters at `positions`."""

    batch: pa.RecordBatch
    positions: list[int]


class Run:
    """Redrives what the record at `position` asks for."""

    def __init__(self, executor: Executor, cold: ColdReader, position: int, progress: Progress) -> None:
        self._executor = executor
        self._cold = cold
        self._position = position
        self._left = progress.redrive.matched.copy()
        self.progress = progress

    async def run(self) -> None:
        """Redrive what waits still, then write down what became of each: the redrive is done."""
        redrive, loop = self.progress.redrive, asyncio.get_running_loop()
        await self._again_until_written(self._look_back)
        due = loop.time()
        while self._left:
            await self._until(due)
            taken = await self._again_until_written(self._redrive_some)
            due = max(due + taken / redrive.rate_per_s, loop.time())
            if self._executor.log.backlogged:
                await self._again_until_written(self._executor.log.flushed)
        await self._again_until_written(self._finish)

    async def _until(self, due: float) -> None:
        """Wait, as long as there is anything to redrive: a group that is deleted takes its dead letters along."""
        loop = asyncio.get_running_loop()
        while (wait_s := due - loop.time()) > 0 and self._left:
            await asyncio.sleep(min(wait_s, LOOK_S))
            self._left &= self._executor.state.dead

    async def _again_until_written(self, step: Callable[[], Awaitable[T]]) -> T:
        return await again_while(step, lambda error: not isinstance(error, LogDamaged))  # which no time heals

    async def _look_back(self) -> None:
        """Learn what was redriven before this process began, or by another redrive."""
        redrive = self.progress.redrive
        before = redrive.matched - self._executor.state.dead
        copies = await find_copies(self._executor, self._cold, redrive.group, before, redrive.since)
        self.progress.settle(copies, copies.values())
        self._left -= before

    async def _redrive_some(self) -> int:
        """Redrive the next few; returns how many were taken."""
        redrive, executor = self.progress.redrive, self._executor
        wanted = min(BATCH_MESSAGES, max(1, int(redrive.rate_per_s * BATCH_S)))
        chosen = list(islice(self._left, wanted))
        causes = executor.claim(chosen)
        if len(causes) < len(chosen):
            # What isn't pending has a copy by another redrive: `_finish` tells.
            self._left &= executor.state.dead
        if not causes:
            await executor.settled(chosen)
            return 0
        try:
            queue = (await executor.ensure_topic(retry_topic(redrive.group))).queues[0]
            found = await executor.read_some(causes)
            copies = await asyncio.to_thread(_copy, found.parts) if found.parts else None
        except BaseException:
            executor.release(causes)
            raise
        executor.release(set(causes).difference(copies.positions if copies else ()))
        failed = found.lost + found.damaged
        self._settle(failed, [FAILED] * len(failed))
        if copies is None:
            return 0
        append = BatchAppend.of(copies.batch, [(queue, len(copies.positions))])
        stored = await executor.execute_claimed(append, copies.positions)
        first = stored.placed[0].position
        self._settle(copies.positions, range(first, first + len(copies.positions)))
        return len(copies.positions)

    def _settle(self, positions: list[int], copies: Sequence[int]) -> None:
        self.progress.settle(positions, copies)
        self._left.difference_update(BitMap64(positions))

    async def _finish(self) -> None:
        redrive, executor = self.progress.redrive, self._executor
        unsettled = await asyncio.to_thread(self.progress.unsettled)
        copies = await find_copies(executor, self._cold, redrive.group, unsettled, redrive.since)
        self.progress.settle(copies, copies.values())
        unsettled.difference_update(BitMap64(list(copies)))
        self.progress.settle(unsettled, [FAILED] * len(unsettled))
        queue = (await executor.ensure_topic(REDRIVE_TOPIC)).queues[0]
        row = done_row(self._position, redrive.group, self.progress.copies)
        await executor.execute([(self._position, row, queue)])


def _copy(parts: list[FrameRows]) -> _Copies:
    """Dead letters as their group gets them once more."""
    dead = gather(parts)
    none = {name: pa.nulls(dead.count_rows, dead.columns[name].type) for name in ("group", "reconsume_times")}
    columns = dead.columns | none | {"cause": dead.positions}
    return _Copies(to_batch(columns), dead.positions.to_pylist())
