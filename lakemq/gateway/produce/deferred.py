"""Messages that don't go to their topic at once: scheduled ones, and halves of transactions."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from lakemq.gateway.decode import ArrowRows
from lakemq.gateway.placement.placement import (
    check_rows,
    due_of,
    later_rows,
    place_aside,
    place_batch,
    place_draft,
    row_of,
)
from lakemq.gateway.work.run import Run
from lakemq.model.errors import FlowControl, InvalidRequest
from lakemq.model.message import Draft
from lakemq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from lakemq.settings import Delay
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.segment.rows import Row
from lakemq.storage.state.topics import Queue, Topic


class Halves(Protocol):
    """Those of open transactions."""

    def check_room(self, count: int) -> None:
        """Raises `FlowControl` unless there may be so many more."""
        ...

    def due_ms(self) -> int:
        """When a half that is stored now is to be checked."""
        ...

    def keep(self, position: int, row: Row) -> None:
        """Remember the half that was stored there."""
        ...


class DeferredPlacement:
    """Says where each message of a request goes. `group`: the producer group of halves, or None."""

    def __init__(self, log: CommitLog, topics: TopicChanges, halves: Halves, delays: Delay) -> None:
        self._log = log
        self._topics = topics
        self._halves = halves
        self._delays = delays

    async def place(
        self, topic: Topic, rows: list[Draft] | ArrowRows, group: str | None, run: Run
    ) -> RowsAppend | BatchAppend:
        """`run`: carries out what takes the longer the more messages there are, and may do so in a thread. Raises
        `InvalidRequest`, `QueueNotFound`, `FlowControl`, `StoreUnwritable`, `WrongMessageType`, `MessageTooLarge`."""
        if isinstance(rows, ArrowRows):
            return await self._place_batch(topic, rows, group, run)
        if group is not None:
            return await self._place_halves(topic, rows, group, run)
        dues = await run(_dues_of, rows, self._log.now_ms(), self._delays)
        if dues is None:
            return await run(_place_all, rows, topic)
        self._check_room(sum([due is not None for due in dues]))
        scheduled = (await self._topics.system(SCHEDULE_TOPIC)).queues[0]
        return await run(_place_scheduled, rows, dues, topic, scheduled)

    def place_one(self, topic: Topic, draft: Draft) -> OneAppend | None:
        """Where a message goes, without waiting for anything; None where it would have to be waited. Raises as
        `place` does."""
        due = due_of(draft, self._log.now_ms(), self._delays)
        if due is None:
            return _place_one(draft, None, topic, topic.queues[0])
        self._check_room(1)
        scheduled = self._log.topics.find(SCHEDULE_TOPIC)
        return None if scheduled is None else _place_one(draft, due, topic, scheduled.queues[0])

    async def _place_halves(self, topic: Topic, drafts: list[Draft], group: str, run: Run) -> RowsAppend:
        self._halves.check_room(len(drafts))
        halves = (await self._topics.system(HALF_TOPIC)).queues[0]
        return await run(_place_halves, drafts, topic, halves, group, self._halves.due_ms())

    async def _place_batch(self, topic: Topic, rows: ArrowRows, group: str | None, run: Run) -> BatchAppend:
        await run(check_rows, rows.batch, topic, group is not None)
        if group is not None:
            names = rows.batch.schema.names
            if "deliver_at_ms" in names and rows.batch.column("deliver_at_ms").null_count < rows.batch.num_rows:
                raise _no_delay()
            self._halves.check_room(rows.batch.num_rows)
            halves = (await self._topics.system(HALF_TOPIC)).queues[0]
            everyone = pa.repeat(pa.scalar(True), rows.batch.num_rows)
            return await run(place_aside, rows, topic, everyone, halves, group, self._halves.due_ms())
        later = later_rows(rows, self._log.now_ms(), self._delays)
        if later is None:
            return await run(place_batch, rows, topic)
        self._check_room(later.true_count)
        scheduled = (await self._topics.system(SCHEDULE_TOPIC)).queues[0]
        return await run(place_aside, rows, topic, later, scheduled)

    def _check_room(self, count: int) -> None:
        if len(self._log.routing.delays) + count > self._delays.waiting_max:
            raise FlowControl(f"{self._delays.waiting_max} scheduled messages wait already (delay.waiting_max)")


def _dues_of(drafts: list[Draft], now_ms: int, delays: Delay) -> list[int | None] | None:
    """When each message is due; None when all are at once."""
    dues = [due_of(draft, now_ms, delays) for draft in drafts]
    return dues if any(dues) else None


def _place_all(drafts: list[Draft], topic: Topic) -> RowsAppend:
    made = [row_of(draft, deliver_at_ms=draft.deliver_at_ms) for draft in drafts]
    return RowsAppend(made, [place_draft(draft, topic) for draft in drafts])


def _place_scheduled(drafts: list[Draft], dues: list[int | None], topic: Topic, scheduled: Queue) -> RowsAppend:
    placed = RowsAppend([], [])
    for draft, due in zip(drafts, dues, strict=True):
        row, queue = _place_one(draft, due, topic, scheduled)
        placed.rows.append(row)
        placed.queues.append(queue)
    return placed


def _place_one(draft: Draft, due: int | None, topic: Topic, scheduled: Queue) -> OneAppend:
    queue = place_draft(draft, topic)
    if due is None:
        return OneAppend(row_of(draft, deliver_at_ms=draft.deliver_at_ms), queue)
    row = row_of(draft, deliver_at_ms=due, real_topic=topic.name, real_queue_id=queue.queue_id)
    return OneAppend(row, scheduled)


def _place_halves(drafts: list[Draft], topic: Topic, halves: Queue, group: str, due_ms: int) -> RowsAppend:
    if any(draft.delay_level or draft.delay_ms or draft.deliver_at_ms is not None for draft in drafts):
        raise _no_delay()
    common = {"real_topic": topic.name, "group": group, "deliver_at_ms": due_ms}
    rows = [row_of(draft, **common, real_queue_id=place_draft(draft, topic, half=True).queue_id) for draft in drafts]
    return RowsAppend(rows, [halves] * len(rows))


def _no_delay() -> InvalidRequest:
    return InvalidRequest("a half of a transaction can't be delayed as well")
