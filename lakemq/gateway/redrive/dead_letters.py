"""Finding dead letters and what became of them: whole queues, read page by page in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.filter import Filter, compile_filter
from lakemq.gateway.redrive.columns import COLUMNS, to_rows
from lakemq.model.errors import InvalidRequest, PositionGone
from lakemq.model.names import dead_letter_topic, retry_topic
from lakemq.storage.read.look_up import QueuePlan
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.topics import Queue

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

logger = logging.getLogger(__name__)

MATCHED_MAX = 1_000_000
"""So many dead letters in one request: a redrive takes 8 MB of memory for them while it goes on."""
PAGE_BYTES = 4 * 1024 * 1024
PAGE_MESSAGES = 16_384

T = TypeVar("T")


async def find_dead_letters(
    executor: Executor, cold: ColdReader, group: str, where: str | None, up_to: int | None = None
) -> tuple[BitMap64, int]:
    """The positions, up to `up_to`, of the group's dead letters that wait (Q), in the lake or the log, and satisfy the
    predicate `where` (None each: all); and how many letters are in neither any more, or were so many that it is not
    known any more whether they wait.

    Raises `InvalidFilter`, `InvalidRequest` where they are more than a request may be about, `LogDamaged`,
    `LakeUnreadable`.
    """
    condition = None if where is None else await asyncio.to_thread(compile_filter, where, COLUMNS)
    found, gone = await _find(executor, cold, group, condition)
    if up_to is not None:
        found = found[: found.rank(up_to)]
    if len(found) > MATCHED_MAX:
        raise InvalidRequest(
            f"{len(found)} dead letters match, more than {MATCHED_MAX} at a time; narrow the predicate,"
            f" with position <= {found[MATCHED_MAX - 1]} for example"
        )
    return found, gone


async def _find(executor: Executor, cold: ColdReader, group: str, condition: Filter | None) -> tuple[BitMap64, int]:
    found, seen = BitMap64(), 0
    topic = executor.log.topics.find(dead_letter_topic(group))
    if topic is None:
        return found, 0

    def choose(slices: list[Slice]) -> tuple[list[BitMap64], int]:
        return [_matching(part, executor.ids, condition) for part in slices], sum([part.count for part in slices])

    queue = topic.queues[0]
    given = queue.count_from(queue.floor)
    async for pages, count in _pages(executor, cold, queue, queue.floor, choose):
        seen += count
        for page in pages:
            found |= page & executor.state.dead
            seen -= page.rank(executor.state.dead_floor - 1) if executor.state.dead_floor else 0
    gone = max(given - seen, 0)
    if gone:
        logger.warning("%d dead letters of group %s are too old, or in neither the log nor the lake", gone, group)
    # A page's letters may have been redriven while later pages were read.
    return found & executor.state.dead, gone


def _matching(part: Slice, ids: MessageIds, condition: Filter | None) -> BitMap64:
    first = part.first_position
    if condition is None:
        return BitMap64(range(first, first + part.count))
    mask = condition.matches(to_rows(part, ids, condition.columns))
    return BitMap64(pc.add(pc.indices_nonzero(mask), pa.scalar(first, pa.uint64())).to_pylist())


async def find_copies(executor: Executor, cold: ColdReader, group: str, causes: BitMap64, since: int) -> dict[int, int]:
    """By position of a dead letter the position of its copy in `%RETRY%{group}`, for those of
    `causes` that have one at `since` or later. Raises `LogDamaged`, `LakeUnreadable`."""
    copies: dict[int, int] = {}
    topic = executor.log.topics.find(retry_topic(group))
    if topic is None or not causes:
        return copies
    queue = topic.queues[0]
    begin = await _offset_at(executor, cold, queue, since)

    def choose(slices: list[Slice]) -> dict[int, int]:
        return {
            cause: part.first_position + number
            for part in slices
            for number, cause in enumerate(_causes(part))
            if cause is not None and cause in causes
        }

    async for page in _pages(executor, cold, queue, begin, choose):
        copies |= page
    return copies


async def find_record(executor: Executor, cold: ColdReader, queue: Queue, cause: int) -> int | None:
    """The position of the record in `queue` whose cause that is. Raises `LogDamaged`, `LakeUnreadable`."""

    def choose(slices: list[Slice]) -> int | None:
        for part in slices:
            for number, value in enumerate(_causes(part)):
                if value == cause:
                    return part.first_position + number
        return None

    async for position in _pages(executor, cold, queue, await _offset_at(executor, cold, queue, cause), choose):
        if position is not None:
            return position
    return None


def _causes(part: Slice) -> list[int | None]:
    return part.frame.content.values("cause", part.row, part.count)


async def _offset_at(executor: Executor, cold: ColdReader, queue: Queue, position: int) -> int:
    """The queue's first offset at that position or later; of what has left the log, the first of all."""
    if position >= executor.log.min_position:
        offset = await executor.plans.offset_at_position(queue, position, cold.run)
        if position >= executor.log.min_position:  # else retention was faster
            return offset
    return await cold.min_offset(queue)


async def _pages(
    executor: Executor, cold: ColdReader, queue: Queue, begin: int, choose: Callable[[list[Slice]], T]
) -> AsyncIterator[T]:
    """What `choose` makes of each page of the queue, from the offset to the queue's end of now. What is
    neither in the log nor in the lake is passed over."""
    offset, end = begin, queue.next_offset
    while offset < end:
        if offset < queue.min_offset:
            made, offset = await _cold_page(cold, queue, offset, choose)
            yield made
            continue

        def carry_out(plan: QueuePlan) -> tuple[T, int]:
            slices, reached = executor.reader.read_up_to(plan, PAGE_BYTES)
            return choose(slices), reached

        try:
            messages_max = min(PAGE_MESSAGES, end - offset)
            plan = await executor.plans.queue(queue, offset, messages_max, PAGE_BYTES, asyncio.to_thread)
            made, offset = await asyncio.to_thread(carry_out, plan)
        except PositionGone:
            continue  # retention was faster: it is in the lake
        yield made


async def _cold_page(cold: ColdReader, queue: Queue, offset: int, choose: Callable[[list[Slice]], T]) -> tuple[T, int]:
    end = queue.min_offset
    found = await cold.slices(queue, offset, PAGE_MESSAGES, PAGE_BYTES)
    slices, reached = ([], end) if found is None else found
    return await cold.run(lambda: choose(slices)), reached
