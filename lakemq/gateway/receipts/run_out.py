"""Messages that were handed out and not acknowledged in time: to the group's retries, or its dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakemq.gateway.effects.due_loop import RETRY_MS, DueLoop
from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor, origin_of
from lakemq.gateway.effects.time_to_live import expires_at, note_expired
from lakemq.model.decide import of_receipt
from lakemq.model.errors import Busy, InvalidRequest
from lakemq.model.expiry import left_ms
from lakemq.model.failure import ran_out, with_failure
from lakemq.model.message import Placed
from lakemq.model.names import DECISION_TOPIC, dead_letter_topic, retry_topic
from lakemq.storage.disk.clock import Clock
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import Row, change_row, make_row, value_of
from lakemq.storage.state.dues import Dues
from lakemq.storage.state.receipts import Out, Receipts
from lakemq.storage.state.topics import Queue

logger = logging.getLogger(__name__)

DAMAGED_MS = 60_000
"""What can't be read is tried again so much later."""
EARLY_MS_MAX = 5_000
"""A decision that comes so much too early waits for its time."""


class _Message(NamedTuple):
    """A message that was handed out: where it is, its row, in which topic, and when it was stored."""

    position: int
    row: Row
    topic: str
    store_time_ms: int

    def expires_ms(self, executor: Executor) -> int | None:
        """When it is delivered no more."""
        return expires_at(executor, self.row, self.topic, self.store_time_ms)


class RunOut:
    """Carries out what becomes of a message that is out when its time is over. `anticipate`: then that
    is certain, as every acknowledgement comes this way, so it is done on the millisecond. Else a
    query decides it, unless it hasn't for `grace_ms`; below 0: however long it takes."""

    def __init__(self, executor: Executor, clock: Clock, anticipate: bool, grace_ms: int) -> None:
        self._executor = executor
        self._clock = clock
        self._anticipate = anticipate
        self._late_ms = 0 if anticipate else grace_ms
        self.decided = 0
        """How many ran out here that a query had not decided."""
        self.loop = DueLoop(self, "messages could not be handed back")

    def start(self) -> None:
        """Begin to look at the time."""
        if self._late_ms >= 0:
            self._executor.state.on_out = self.loop.look_again
            self.loop.start()

    async def close(self) -> None:
        """Carry out no more."""
        await self.loop.close()

    @property
    def _receipts(self) -> Receipts:
        return self._executor.state.receipts

    # What the loop does ----------------------------------------------------------------------

    @property
    def dues(self) -> Dues:
        """When the messages that are out run out."""
        return self._receipts.dues

    def now_ms(self) -> int:
        """What ran out by that time is carried out."""
        return self._clock.now_ms() - self._late_ms

    async def do(self, positions: list[int]) -> None:
        """Carry out what becomes of these receipts."""
        done = await self._carry_out(dict.fromkeys(positions))
        self.decided += 0 if self._anticipate else done

    def put_back(self, positions: list[int], due_ms: int) -> None:
        """Look at those that are out still once more then. (Without a lead and a grace only the query looks.)"""
        if self._late_ms < 0:
            return
        still_out = [receipt for receipt in positions if receipt in self._receipts.out]
        if still_out:
            self._receipts.dues.add(due_ms, still_out)

    async def anticipate(self, receipts: Iterable[int]) -> None:
        """Carry out at once what is due now, unless that is left to the query."""
        if self._anticipate:
            await self._carry_out(dict.fromkeys(receipts))

    async def decide(self, actions: Mapping[int, str]) -> int:
        """Carry out the query's decisions by receipt, where it is out; returns how many that were.

        Raises `Busy` for what is far from due, `StoreUnwritable`.
        """
        out = self._receipts.out
        due_ms = max((out[receipt].until_ms for receipt in actions if receipt in out), default=0)
        early_ms = due_ms - self._clock.now_ms()
        if early_ms > EARLY_MS_MAX:
            raise Busy(f"a message is out for {early_ms} ms more")
        if early_ms > 0:
            await asyncio.sleep(early_ms / 1000)
        return await self._carry_out(dict(actions))

    # Carrying out ----------------------------------------------------------------------------

    async def _carry_out(self, actions: dict[int, str | None]) -> int:
        """Write the effects of the receipts that are out; returns how many that were. An action of None
        is decided here."""
        accepted = 0
        left = actions
        while left:
            await self._executor.settled(left)
            by_message: dict[int, list[int]] = {}
            for receipt in left:
                if receipt in self._receipts.out:
                    by_message.setdefault(self._receipts.out[receipt].message, []).append(receipt)
            placed = await self._write(by_message, actions)
            accepted += sum(where is not None for where in placed.values())
            # An acknowledgement may be under way; should its write fail, the message is out still.
            left = {receipt: actions[receipt] for receipt, where in placed.items() if where is None}
        return accepted

    async def _write(
        self, by_message: dict[int, list[int]], actions: Mapping[int, str | None]
    ) -> dict[int, Placed | None]:
        """Where the effects are of those that have one, as many at a time as there is room for."""
        written: dict[int, Placed | None] = {}
        left = sorted(by_message)
        while left:
            found = await self._executor.read_some(left[:AT_ONCE_MAX])
            rows = {message.position: message for part in found.parts for message in _messages(part)}
            effects: list[tuple[int, Row, Queue]] = []
            for message in [*rows, *found.lost]:
                for receipt in by_message[message]:
                    effect = await self._effect(receipt, rows.get(message), actions[receipt])
                    if effect is not None:
                        effects.append(effect)
            damaged = [receipt for message in found.damaged for receipt in by_message[message]]
            self.put_back(damaged, self._clock.now_ms() + DAMAGED_MS)
            effects.sort(key=lambda effect: effect[0])  # in the order of the receipts
            placed = await self._executor.execute(effects)
            written |= {effect[0]: where for effect, where in zip(effects, placed, strict=True)}
            left = found.left + left[AT_ONCE_MAX:]
        return written

    async def _effect(
        self, receipt: int, message: _Message | None, action: str | None
    ) -> tuple[int, Row, Queue] | None:
        out = self._receipts.out.get(receipt)
        if out is None:  # acknowledged meanwhile
            return None
        if message is None:
            logger.error("the message of the receipt at %d is lost", receipt)
            topic = await self._executor.ensure_topic(DECISION_TOPIC)
            return receipt, make_row(body=b"", tag="drop", cause=receipt), topic.queues[0]
        chosen = action or of_receipt(out.reconsume_times, out.max_reconsume_times).action
        group, row = out.subscription.group, message.row
        left = left_ms(message.expires_ms(self._executor), self._clock.now_ms())
        if chosen == "retry" and left == 0:
            note_expired(self._executor, out.subscription.topic)
            topic = await self._executor.ensure_topic(DECISION_TOPIC)
            return receipt, make_row(body=b"", tag="expired", cause=receipt), topic.queues[0]
        row = change_row(row, ttl_ms=left if chosen == "retry" else None)
        name = retry_topic(group) if chosen == "retry" else dead_letter_topic(group)
        try:
            topic = await self._executor.ensure_topic(name)
        except InvalidRequest as error:  # no room for another topic: others shall not wait for that
            logger.warning("can't hand a message back: %s", error)
            self.put_back([receipt], self._clock.now_ms() + RETRY_MS)
            return None
        return receipt, self._copy(receipt, out, row, chosen), topic.queues[0]

    def _copy(self, receipt: int, out: Out, row: Row, action: str) -> Row:
        columns: dict[str, object] = {
            "cause": receipt,
            "origin_message_id": origin_of(row, self._executor.message_id(out.message)),
            "real_topic": out.subscription.topic,
            "real_queue_id": None,
            "deliver_at_ms": None,
            "properties": with_failure(value_of(row, "properties"), ran_out(out.reconsume_times + 1)),
        }
        if action == "dead_letter":
            return change_row(row, **columns, group=out.subscription.group)
        times = (value_of(row, "reconsume_times") or 0) + 1
        return change_row(row, **columns, group=None, reconsume_times=times)


def _messages(part: FrameRows) -> list[_Message]:
    meta = part.frame.meta
    return [
        _Message(position, row, part.run_of(position - meta.first_position).topic, meta.store_time_ms)
        for position, row in part.rows().items()
    ]
