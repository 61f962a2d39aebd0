"""Finding dead letters and what became of them: whole queues, read page by page in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from lakemq.gateway.filter import Filter
from lakemq.gateway.redrive.columns import to_rows
from lakemq.gateway.routing.executor import Executor
from lakemq.model.errors import PositionGone
from lakemq.model.names import dead_letter_topic, retry_topic
from lakemq.storage.reader import QueuePlan, Slice
from lakemq.storage.topics import Queue

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

PAGE_BYTES = 4 * 1024 * 1024
PAGE_MESSAGES = 16_384

T = TypeVar("T")


async def find_dead_letters(executor: Executor, group: str, condition: Filter | None) -> BitMap64:
    """The positions of the group's dead letters that wait (Q) and satisfy the condition; None: all.

    Raises `InvalidFilter` for what only values can tell, `LogDamaged`.
    """
    found = BitMap64()
    topic = executor.log.topics.find(dead_letter_topic(group))
    if topic is None:
        return found

    def choose(slices: list[Slice]) -> list[BitMap64]:
        return [_matching(part, executor.name, condition) for part in slices]

    async for pages in _pages(executor, topic.queues[0], topic.queues[0].min_offset, choose):
        for page in pages:
            found |= page & executor.state.dead
    # A page's letters may have been redriven while later pages were read.
    return found & executor.state.dead


def _matching(part: Slice, broker: str, condition: Filter | None) -> BitMap64:
    first = part.first_position
    if condition is None:
        return BitMap64(range(first, first + part.count))
    mask = condition.matches(to_rows(part, broker, condition.columns))
    return BitMap64(pc.add(pc.indices_nonzero(mask), pa.scalar(first, pa.uint64())).to_pylist())


async def find_copies(executor: Executor, group: str, causes: BitMap64, since: int) -> dict[int, int]:
    """By position of a dead letter the position of its copy in `%RETRY%{group}`, for those of
    `causes` that have one in the log at `since` or later. Raises `LogDamaged`."""
    copies: dict[int, int] = {}
    topic = executor.log.topics.find(retry_topic(group))
    if topic is None or not causes:
        return copies
    queue = topic.queues[0]
    begin = executor.reader.offset_at_position(queue, max(since, executor.log.min_position))

    def choose(slices: list[Slice]) -> dict[int, int]:
        return {
            cause: part.first_position + number
            for part in slices
            for number, cause in enumerate(_causes(part))
            if cause is not None and cause in causes
        }

    async for page in _pages(executor, queue, begin, choose):
        copies |= page
    return copies


async def find_record(executor: Executor, queue: Queue, cause: int) -> int | None:
    """The position of the record in `queue` whose cause that is. Raises `LogDamaged`."""

    def choose(slices: list[Slice]) -> int | None:
        for part in slices:
            for number, value in enumerate(_causes(part)):
                if value == cause:
                    return part.first_position + number
        return None

    async for position in _pages(executor, queue, executor.reader.offset_at_position(queue, cause), choose):
        if position is not None:
            return position
    return None


def _causes(part: Slice) -> list[int | None]:
    batch = part.frame.batch
    if "cause" not in batch.schema.names:
        return []
    return batch.column("cause").slice(part.row, part.count).to_pylist()


async def _pages(executor: Executor, queue: Queue, begin: int, choose: Callable[[list[Slice]], T]) -> AsyncIterator[T]:
    """What `choose` makes of each page of the queue, from the offset to the queue's end of now."""
    offset, end = begin, queue.next_offset
    while offset < end:
        plan = executor.reader.plan(queue, offset, min(PAGE_MESSAGES, end - offset), PAGE_BYTES)

        def carry_out(plan: QueuePlan = plan) -> tuple[T, int]:
            slices, reached = executor.reader.read_up_to(plan, PAGE_BYTES)
            return choose(slices), reached

        try:
            made, offset = await asyncio.to_thread(carry_out)
        except PositionGone:
            # Retention was faster: go on with what is left.
            offset = max(offset, queue.min_offset)
            continue
        yield made
