"""Nacks: messages that a group could not process, on their way to a retry or the dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor, origin_of
from lakemq.gateway.effects.time_to_live import expires_at, note_expired
from lakemq.gateway.http.in_slices import Pause
from lakemq.gateway.receipts.acknowledger import EXPIRED, OK, Acknowledger
from lakemq.model.decide import of_nack
from lakemq.model.errors import FlowControl, InvalidRequest, LogDamaged, MessageNotFound
from lakemq.model.expiry import left_ms
from lakemq.model.failure import Failure, failure_of, with_failure
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
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import Row, change_row, make_row, value_of
from lakemq.storage.state.routing_state import position_of
from lakemq.storage.state.topics import Queue

logger = logging.getLogger(__name__)


LOOKED_AT = 100
"""Of so many nacked messages what is known is looked up at a time."""
DUPLICATE = "duplicate"
GONE = MessageNotFound.code
"""Of a message that was deleted with its topic, where another of the request is not."""


class Nack(NamedTuple):
    """One message that is to be consumed later, named by its id or, while it is out, by its receipt.
    `max_reconsume_times` None: that of its receive, or else the broker's."""

    message_id: str | None
    delay_level: int = 0
    max_reconsume_times: int | None = None
    receipt: str | None = None
    why: Failure | None = None


class _Asked(NamedTuple):
    """What a nack is about: the message at a position, out by `receipt` when it is named by that; or
    why it is about nothing."""

    position: int | None
    receipt: int | None = None
    status: str = OK


class _Known(NamedTuple):
    """What a nack must know of its message: where it is stored, the topic that its group wants, and
    its attempts."""

    queue: tuple[str, int]
    offset: int
    topic: str
    reconsume_times: int


class _Message(NamedTuple):
    """A message of the log: where it is, in which topic, its row, and when it was stored."""

    position: int
    topic: str
    row: Row
    store_time_ms: int


class Nacks:
    """The nacks of one broker. `anticipate`: what a nack leads to follows from the nack alone, so it
    is carried out at once.

    A nack of a message that is out is the effect of its receipt: so a message that was handed out has
    one outcome, an acknowledgement, a nack or running out, whichever claims the receipt first."""

    def __init__(self, executor: Executor, settings: Settings, anticipate: bool, acknowledger: Acknowledger) -> None:
        self._executor = executor
        self._acknowledger = acknowledger
        self._levels = settings.delay.levels
        self._limits = settings.retry
        self._anticipate = anticipate
        self._storing: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def nack(self, group: str, nacks: Sequence[Nack], check: Callable[[str], None]) -> list[str]:
        """Store the nacks, all or none; `check` may refuse those of a topic, whose messages the group would read as
        retries. Of each: `ok`; `duplicate` when the group was done with the message
        before (nacked, acknowledged, ran out); of one by receipt also `receipt_expired` when it was done
        with otherwise than by a nack, and `invalid_receipt`. What was deleted with its topic, or has left the log and
        the lake, keeps no other from being taken: it is `message_not_found`, or the request is where nothing else is
        in it, or where a message was never stored.

        Raises `MessageNotFound`, `InvalidRequest`, `FlowControl`, `StoreUnwritable`, `LogDamaged`.
        """
        self._check_room(len(nacks))
        asked = await self._ask(group, nacks)
        known, lost = await self._look_up(group, sorted({each.position for each in asked if each.position is not None}))
        for topic in {each.topic for each in known.values()}:
            check(topic)
        deleted = self._find_gone(group, known)
        gone = deleted.union(lost)
        if gone:
            asked = [_Asked(None, status=GONE) if each.position in gone else each for each in asked]
            known = {position: each for position, each in known.items() if position not in gone}
            if all(each.status == GONE for each in asked):
                raise _not_found(min(gone), min(gone) in deleted)
        now = self._executor.log.now_ms()
        # Before anything is stored: a group whose topics can't be made has no nacks.
        terms = {
            (known[each.position].reconsume_times, *self._terms(nack, each.receipt))
            for each, nack in zip(asked, nacks, strict=True)
            if each.position is not None
        }
        for action in {of_nack(*each, self._levels, now).action for each in terms}:
            await self._executor.ensure_topic(retry_topic(group) if action == "retry" else dead_letter_topic(group))
        queue = (await self._executor.ensure_topic(NACK_TOPIC)).queues[0]
        await self._undisturbed(group, known)
        # From here to the claims nothing comes in between.
        statuses, rows = self._choose(group, asked, nacks, known)
        if rows:
            await self._store(group, rows, queue, now)
        return statuses

    def _check_room(self, count: int) -> None:
        state, most = self._executor.state, self._limits.waiting_max
        if len(state.nacks) + count > most:
            raise FlowControl(f"{most} nacks wait for a decision (retry.waiting_max)")
        if len(state.receipts.delayed) + count > most:
            raise FlowControl(f"{most} messages that were received wait for their retries (retry.waiting_max)")

    async def _ask(self, group: str, nacks: Sequence[Nack]) -> list[_Asked]:
        texts = list(dict.fromkeys(nack.receipt for nack in nacks if nack.receipt is not None))
        receipts = dict(zip(texts, await self._acknowledger.positions(texts), strict=True))
        await self._executor.settled([each for each in receipts.values() if each is not None])
        pause, asked = Pause(), list[_Asked]()
        for nack in nacks:
            await pause()
            if nack.receipt is None:
                assert nack.message_id is not None, "a nack names a message"
                asked.append(_Asked(self._position(nack.message_id)))
            else:
                receipt = receipts[nack.receipt]
                if receipt is None:
                    asked.append(_Asked(None, status=self._acknowledger.status_of_other(nack.receipt)))
                else:
                    asked.append(self._ask_by_receipt(group, receipt))
        return asked

    def _ask_by_receipt(self, group: str, receipt: int) -> _Asked:
        receipts = self._executor.state.receipts
        status = self._acknowledger.status(group, receipt)
        if receipt in receipts.out and status == OK:
            return _Asked(receipts.out[receipt].message, receipt)
        if receipt in receipts.nacked:
            return _Asked(None, status=DUPLICATE)
        return _Asked(None, status=EXPIRED if status == OK else status)

    async def _undisturbed(self, group: str, known: dict[int, _Known]) -> None:
        """Return when nobody else is writing what becomes of one of these messages for the group."""
        while True:
            storing = {self._storing[group, each] for each in known if (group, each) in self._storing}
            if storing:
                await asyncio.wait(storing)
                continue
            out = [self._receipt_of(group, position, each) for position, each in known.items()]
            receipts = [receipt for receipt in out if receipt is not None]
            if all(self._executor.is_free(receipt) for receipt in receipts):
                return
            await self._executor.settled(receipts)

    def _choose(
        self, group: str, asked: Sequence[_Asked], nacks: Sequence[Nack], known: dict[int, _Known]
    ) -> tuple[list[str], dict[int, Row]]:
        """The status of each nack, and by message the rows of those that are to be stored."""
        statuses: list[str] = []
        rows: dict[int, Row] = {}
        for each, nack in zip(asked, nacks, strict=True):
            position, status = each.position, each.status
            if position is not None:
                receipt = self._receipt_of(group, position, known[position])
                if each.receipt is not None and each.receipt != receipt:
                    status = self._ask_by_receipt(group, each.receipt).status
                elif position in rows or (receipt is None and self._is_done(group, position, known[position])):
                    status = DUPLICATE
                else:
                    rows[position] = self._row(group, nack, position, known[position], receipt)
            statuses.append(status)
        return statuses, rows

    def _receipt_of(self, group: str, position: int, known: _Known) -> int | None:
        return self._executor.state.receipts.receipt_of(group, known.topic, position)

    def _is_done(self, group: str, position: int, known: _Known) -> bool:
        """Whether the group is done with a message that it has not out. What members of the group consume
        is not known here: there only a nack from before tells."""
        state = self._executor.state
        if position in state.nacked.get(group, ()):
            return True
        found = self._executor.log.state.groups.find(group)
        if found is not None and found.consumes(known.topic):
            return False
        return state.receipts.has_passed(group, known.topic, known.queue, known.offset)

    async def _look_up(self, group: str, positions: Sequence[int]) -> tuple[dict[int, _Known], list[int]]:
        """What is nacked, checked: topic and attempts of each message, not its body; and which of them were lost."""
        end = self._executor.log.next_position
        if positions and positions[-1] >= end:
            raise _not_found(positions[-1], is_deleted=False)
        pause, known, lost = Pause(), dict[int, _Known](), list[int]()
        left: Sequence[int] = positions
        while left:
            found = await self._executor.read_some(left)
            if found.damaged:
                raise LogDamaged(f"the message at position {found.damaged[0]} can't be read: the log is damaged")
            for part in found.parts:
                for piece in part.pieces(LOOKED_AT):
                    known |= _known(group, piece)
                    await pause()
            lost += found.lost
            left = found.left
        return known, lost

    def _find_gone(self, group: str, known: dict[int, _Known]) -> set[int]:
        """What was deleted with its topic, whose name may be another's by now. Of what the group has out it has had the
        body; else a message may also be none that groups consume. No topic is named: ids can be counted through. Raises
        `InvalidRequest`."""
        gone: set[int] = set()
        for position, each in known.items():
            if self._receipt_of(group, position, each) is not None:
                continue
            if is_system(each.topic):
                raise InvalidRequest(
                    f"group {group!r} does not consume the topic of the message at position {position}"
                )
            if each.offset < self._executor.log.topics.floor(*each.queue):
                gone.add(position)
        return gone

    def _position(self, message_id: str) -> int:
        return self._executor.ids.position(message_id)

    async def _store(self, group: str, rows: dict[int, Row], queue: Queue, now: int) -> None:
        done = asyncio.get_running_loop().create_future()
        self._storing |= {(group, position): done for position in rows}
        try:
            placed = await self._executor.execute([(value_of(row, "cause"), row, queue) for row in rows.values()])
        finally:
            for position in rows:
                del self._storing[group, position]
            done.set_result(None)
        if self._anticipate:
            stored = {where.position: row for row, where in zip(rows.values(), placed, strict=True) if where}
            await self._carry_out({cause: self._decide(row, now) for cause, row in stored.items()}, stored)

    def _terms(self, nack: Nack, receipt: int | None) -> tuple[int, int]:
        """The level that is asked for, and after how many attempts a message is dead."""
        most, out = nack.max_reconsume_times, self._executor.state.receipts.out
        if most is None and receipt in out:
            most = out[receipt].max_reconsume_times
        return nack.delay_level, self._limits.max_reconsume_times if most is None else most

    def _row(self, group: str, nack: Nack, position: int, known: _Known, receipt: int | None) -> Row:
        level, most = self._terms(nack, receipt)
        return make_row(
            body=b"",
            group=group,
            origin_message_id=self._executor.message_id(position),
            real_topic=known.topic,
            reconsume_times=known.reconsume_times,
            properties={"delay_level": str(level), "max_reconsume_times": str(most)}
            | (nack.why.properties() if nack.why else {}),
            cause=receipt,
            # By this time the query knows the receipt.
            deliver_at_ms=None if receipt is None else self._executor.state.receipts.out[receipt].until_ms,
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
        async for part in self._read(pending):
            nacks |= part.rows()
        return await self._carry_out(decisions, nacks)

    async def decide_overdue(self, causes: Sequence[int]) -> int:
        """Decide nacks that no query has decided; how many were pending."""
        await self._executor.settled(causes)
        decisions: dict[int, RetryDecision] = {}
        nacks: dict[int, Row] = {}
        async for part in self._read([cause for cause in causes if cause in self._executor.state.nacks]):
            rows = part.rows()
            decisions |= {cause: self._decide(row, part.frame.meta.store_time_ms) for cause, row in rows.items()}
            nacks |= rows
        return await self._carry_out(decisions, nacks)

    async def _read(self, causes: Sequence[int]) -> AsyncIterator[FrameRows]:
        """The pending nacks, in parts. Of one that the log has no more, as it was erased with its message, nothing
        comes."""
        left = causes
        while left:
            found = await self._executor.read_some(left)
            for part in found.parts:
                yield part
            erased = [cause for cause in found.lost if cause >= self._executor.log.min_position]
            if erased:
                await self._executor.execute([await self._dropped(cause) for cause in erased])
            left = found.left

    async def end_lost(self, causes: Sequence[int]) -> int:
        """End those of the pending nacks that are nowhere any more: nothing is known of what they asked for; how
        many. Raises `StoreUnwritable`, `LakeUnreadable`."""
        await self._executor.settled(causes)
        lost = set(causes)
        async for part in self._executor.read_all(causes):
            lost.difference_update(part.rows())
        placed = await self._executor.execute([await self._dropped(cause) for cause in sorted(lost)])
        return sum(where is not None for where in placed)

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
        logger.error("the nack at %d, or its message, is lost", cause)
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
            "properties": with_failure(value_of(row, "properties"), failure_of(value_of(nack, "properties"))),
        }
        if decision.action == "dead_letter":
            topic = await ensure(dead_letter_topic(group))
            dead = change_row(
                row, **columns, real_topic=first_topic, real_queue_id=None, group=group, deliver_at_ms=None, ttl_ms=None
            )
            return cause, dead, topic.queues[0]
        assert decision.due_ms is not None
        expires = expires_at(self._executor, row, message.topic, message.store_time_ms)
        left = left_ms(expires, decision.due_ms)
        if left == 0:
            note_expired(self._executor, first_topic)
            return cause, make_row(body=b"", tag="expired", cause=cause), (await ensure(DECISION_TOPIC)).queues[0]
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
            ttl_ms=left,
        )
        return cause, waiting, topic.queues[0]


def _not_found(position: int, is_deleted: bool) -> MessageNotFound:
    if is_deleted:
        return MessageNotFound(f"the topic of the message at position {position} was deleted")
    return MessageNotFound(f"the log holds no message at position {position}")


def _messages(part: FrameRows) -> list[_Message]:
    meta = part.frame.meta
    return [
        _Message(position, part.run_of(position - meta.first_position).topic, row, meta.store_time_ms)
        for position, row in part.rows().items()
    ]


_LOOKED_UP = ("real_topic", "reconsume_times")


def _values(part: FrameRows, name: str) -> list[Any]:
    """The column's values: a stretch of rows at once costs less, unless it has far more than are wanted."""
    numbers = part.numbers
    if numbers[-1] - numbers[0] < 4 * len(numbers):
        return part.values(name)
    return [part.value(name, number) for number in numbers]


def _known(group: str, part: FrameRows) -> dict[int, _Known]:
    known: dict[int, _Known] = {}
    for number, real_topic, times in zip(part.numbers, *(_values(part, name) for name in _LOOKED_UP), strict=True):
        run = part.run_of(number)
        topic = real_topic if run.topic == retry_topic(group) else run.topic
        offset = run.first_queue_offset + number - run.row
        known[part.frame.meta.first_position + number] = _Known((run.topic, run.queue_id), offset, topic, times or 0)
    return known
