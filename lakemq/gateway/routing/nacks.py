"""Nacks: messages that a group could not process, on their way to a retry or the dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakemq.gateway.routing.executor import AT_ONCE_MAX, Executor, origin_of
from lakemq.model.decide import of_nack
from lakemq.model.errors import FlowControl, InvalidRequest, LogDamaged, MessageNotFound
from lakemq.model.ids import parse_message_id
from lakemq.model.names import (
    DECISION_TOPIC,
    NACK_TOPIC,
    SCHEDULE_TOPIC,
    dead_letter_topic,
    is_system,
    retry_topic,
)
from lakemq.model.retry import RetryDecision
from lakemq.settings import Settings
from lakemq.storage.routing_state import position_of
from lakemq.storage.row_reader import FrameRows
from lakemq.storage.rows import Row, change_row, make_row, value_of
from lakemq.storage.topics import Queue

logger = logging.getLogger(__name__)


class Nack(NamedTuple):
    """One message that is to be consumed later. `max_reconsume_times` None: the broker's."""

    message_id: str
    delay_level: int = 0
    max_reconsume_times: int | None = None


class _Known(NamedTuple):
    """What a nack must know of its message."""

    topic: str
    reconsume_times: int


class _Message(NamedTuple):
    """A message of the log: where it is, in which topic, and its row."""

    position: int
    topic: str
    row: Row


class Nacks:
    """The nacks of one broker. `anticipate`: what a nack leads to follows from the nack alone, so it
    is carried out at once."""

    def __init__(self, executor: Executor, settings: Settings, anticipate: bool) -> None:
        self._executor = executor
        self._levels = settings.delay.levels
        self._limits = settings.retry
        self._anticipate = anticipate
        self._storing: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def nack(self, group: str, nacks: Sequence[Nack]) -> list[str]:
        """Store the nacks, all or none; of each: `ok`, or `duplicate` when it was there before.

        Raises `MessageNotFound`, `InvalidRequest`, `FlowControl`, `StoreUnwritable`, `LogDamaged`.
        """
        if len(self._executor.state.nacks) + len(nacks) > self._limits.waiting_max:
            raise FlowControl(f"{self._limits.waiting_max} nacks wait for a decision (retry.waiting_max)")
        positions = [self._position(nack.message_id) for nack in nacks]
        known = await self._look_up(group, positions)
        while others := {self._storing[group, each] for each in positions if (group, each) in self._storing}:
            await asyncio.wait(others)
        seen = self._executor.state.nacked.get(group, ())
        fresh: dict[int, Nack] = {}
        for position, nack in zip(positions, nacks, strict=True):
            if position not in seen:
                fresh.setdefault(position, nack)
        if fresh:
            await self._store(group, fresh, known)
        first: set[int] = set()
        statuses: list[str] = []
        for position in positions:
            statuses.append("ok" if position in fresh and position not in first else "duplicate")
            first.add(position)
        return statuses

    async def _look_up(self, group: str, positions: Sequence[int]) -> dict[int, _Known]:
        """What is nacked, checked: topic and attempts of each message, not its body."""
        known: dict[int, _Known] = {}
        left: Sequence[int] = positions
        while left:
            found = await self._executor.read_some(left)
            if found.damaged:
                raise LogDamaged(f"the message at position {found.damaged[0]} can't be read: the log is damaged")
            for part in found.parts:
                for number in part.numbers:
                    topic, attempts = part.run_of(number).topic, _reconsume_times(part.frame.batch, number)
                    if is_system(topic) and topic != retry_topic(group):
                        raise InvalidRequest(f"group {group!r} does not consume topic {topic!r}")
                    known[part.frame.meta.first_position + number] = _Known(topic, attempts)
            if found.lost:
                raise MessageNotFound(f"the log holds no message at position {found.lost[0]}")
            left = found.left
        return known

    def _position(self, message_id: str) -> int:
        name, position = parse_message_id(message_id)
        if name != self._executor.name:
            raise MessageNotFound(f"message {message_id!r} is of broker {name!r}")
        return position

    async def _store(self, group: str, fresh: dict[int, Nack], known: dict[int, _Known]) -> None:
        rows = [self._row(group, nack, known[position]) for position, nack in fresh.items()]
        now = self._executor.log.now_ms()
        # Before anything is stored: a group whose topics can't be made has no nacks.
        for action in {self._decide(row, now).action for row in rows}:
            await self._executor.ensure_topic(retry_topic(group) if action == "retry" else dead_letter_topic(group))
        queue = (await self._executor.ensure_topic(NACK_TOPIC)).queues[0]
        while others := {self._storing[group, each] for each in fresh if (group, each) in self._storing}:
            await asyncio.wait(others)
        done = asyncio.get_running_loop().create_future()
        self._storing |= {(group, position): done for position in fresh}
        try:
            seen = self._executor.state.nacked.get(group, ())
            rows = [row for position, row in zip(fresh, rows, strict=True) if position not in seen]
            placed = await self._executor.execute([(None, row, queue) for row in rows])
        finally:
            for position in fresh:
                del self._storing[group, position]
            done.set_result(None)
        if self._anticipate:
            stored = {where.position: row for row, where in zip(rows, placed, strict=True) if where is not None}
            await self._carry_out({cause: self._decide(row, now) for cause, row in stored.items()}, stored)

    def _row(self, group: str, nack: Nack, known: _Known) -> Row:
        most = nack.max_reconsume_times
        return make_row(
            body=b"",
            group=group,
            origin_message_id=nack.message_id,
            real_topic=known.topic,
            reconsume_times=known.reconsume_times,
            properties={
                "delay_level": str(nack.delay_level),
                "max_reconsume_times": str(self._limits.max_reconsume_times if most is None else most),
            },
        )

    def _decide(self, nack: Row, nacked_ms: int) -> RetryDecision:
        options = value_of(nack, "properties")
        return of_nack(
            value_of(nack, "reconsume_times"),
            int(options["delay_level"]),
            int(options["max_reconsume_times"]),
            self._levels,
            nacked_ms,
        )

    async def decide(self, decisions: dict[int, RetryDecision]) -> int:
        """Carry out the query's decisions by cause, where it is pending; how many that were."""
        await self._executor.settled(decisions)
        pending = [cause for cause in decisions if cause in self._executor.state.nacks]
        nacks: dict[int, Row] = {}
        async for part in self._executor.read_all(pending):
            nacks |= part.rows()
        return await self._carry_out(decisions, nacks)

    async def _carry_out(self, decisions: dict[int, RetryDecision], nacks: dict[int, Row]) -> int:
        """Write the effects of the nacks, as many at a time as there is room for their messages."""
        by_target: dict[int, list[int]] = {}
        for cause, nack in nacks.items():
            by_target.setdefault(position_of(value_of(nack, "origin_message_id")), []).append(cause)
        accepted = 0
        left = list(by_target)
        while left:
            found = await self._executor.read_some(left[:AT_ONCE_MAX])
            effects = [
                await self._effect(cause, nacks[cause], message, decisions[cause])
                for part in found.parts
                for message in _messages(part)
                for cause in by_target[message.position]
            ]
            effects += [await self._dropped(cause) for target in found.lost for cause in by_target[target]]
            effects.sort(key=lambda effect: effect[0] or 0)  # in the order of the nacks
            placed = await self._executor.execute(effects)
            accepted += sum(where is not None for where in placed)
            left = found.left + left[AT_ONCE_MAX:]
        return accepted

    async def _dropped(self, cause: int) -> tuple[int | None, Row, Queue]:
        logger.error("the message of the nack at %d was lost to damage of the log", cause)
        topic = await self._executor.ensure_topic(DECISION_TOPIC)
        return cause, make_row(body=b"", tag="drop", cause=cause), topic.queues[0]

    async def _effect(
        self, cause: int, nack: Row, message: _Message, decision: RetryDecision
    ) -> tuple[int | None, Row, Queue]:
        group, row = value_of(nack, "group"), message.row
        ensure = self._executor.ensure_topic
        first_topic = value_of(row, "real_topic") if message.topic == retry_topic(group) else message.topic
        columns: dict[str, object] = {
            "cause": cause,
            "origin_message_id": origin_of(row, self._executor.message_id(message.position)),
        }
        if decision.action == "dead_letter":
            topic = await ensure(dead_letter_topic(group))
            dead = change_row(
                row, **columns, real_topic=first_topic, real_queue_id=None, group=group, deliver_at_ms=None
            )
            return cause, dead, topic.queues[0]
        assert decision.due_ms is not None
        await ensure(retry_topic(group))
        topic = await ensure(SCHEDULE_TOPIC)
        waiting = change_row(
            row,
            **columns,
            real_topic=retry_topic(group),
            real_queue_id=0,
            retry_topic=first_topic,
            deliver_at_ms=decision.due_ms,
            reconsume_times=(value_of(row, "reconsume_times") or 0) + 1,
        )
        return cause, waiting, topic.queues[0]


def _messages(part: FrameRows) -> list[_Message]:
    first = part.frame.meta.first_position
    return [_Message(position, part.run_of(position - first).topic, row) for position, row in part.rows().items()]


def _reconsume_times(batch: pa.RecordBatch, number: int) -> int:
    if "reconsume_times" not in batch.schema.names:
        return 0
    return batch.column("reconsume_times")[number].as_py() or 0
