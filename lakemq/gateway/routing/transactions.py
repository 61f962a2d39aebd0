"""Transactions: halves, their resolutions, and what the query decides about them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from lakemq.gateway.access.caller import Caller
from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor, origin_of
from lakemq.gateway.http.in_slices import Pause
from lakemq.gateway.routing.committing import Committing
from lakemq.gateway.routing.half_rights import Check, CheckHalf, alone, check_of, refusals_of
from lakemq.model.errors import (
    FlowControl,
    InvalidRequest,
    LakemqError,
    LogDamaged,
    TransactionNotFound,
    TransactionResolved,
)
from lakemq.model.names import CHECK_MAX_TOPIC, DECISION_TOPIC, HALF_TOPIC, OP_TOPIC
from lakemq.model.transaction import RESOLUTIONS, wait_ms
from lakemq.settings import Transactions as Limits
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.receiver import Receiver, Stored
from lakemq.storage.segment.rows import Row, change_row, make_row, value_of
from lakemq.storage.state.open_halves import OpenHalf
from lakemq.storage.state.routing_state import position_of
from lakemq.storage.state.secret_ids import SecretIds
from lakemq.storage.state.topics import Queue, Topic

logger = logging.getLogger(__name__)
T = TypeVar("T")

ROW_BYTES = 512
"""About what a half takes in memory beside its body."""


Chosen = tuple[OpenHalf, str]
"""A transaction, and how it is to end."""


class Resolved(NamedTuple):
    """What became of one resolution: `status` is `ok` or an error's code."""

    transaction_id: str
    status: str
    detail: str


class Transactions:
    """The transactions of one broker. `anticipate`: a commit or rollback is carried out at once,
    which is certain, as a half has one effect and the log is written in one place.

    In the log a transaction is named by its first half's message id; its own id, by which it is resolved, stands
    there only once it has ended.
    """

    def __init__(self, executor: Executor, secret_ids: SecretIds, limits: Limits, anticipate: bool) -> None:
        self._executor = executor
        self._secret_ids = secret_ids
        self._limits = limits
        self._anticipate = anticipate
        self._rows: OrderedDict[int, Row] = OrderedDict()
        self._rows_bytes = 0
        self._resolving: dict[int, asyncio.Future[None]] = {}

    # Halves ----------------------------------------------------------------------------------

    def check_room(self, count: int) -> None:
        """Raises `FlowControl` when so many more would be too many."""
        if len(self._executor.state.transactions) + count > self._limits.open_max:
            raise FlowControl(f"{self._limits.open_max} transactions are open (transactions.open_max)")

    def keep(self, position: int, row: Row) -> None:
        """Keep a half's row for its resolution, which mostly comes soon."""
        self._rows[position] = row
        self._rows_bytes += len(row[1]) + ROW_BYTES
        while self._rows_bytes > self._limits.halves_bytes_max:
            _, oldest = self._rows.popitem(last=False)
            self._rows_bytes -= len(oldest[1]) + ROW_BYTES

    def _take_kept(self, position: int) -> Row | None:
        row = self._rows.pop(position, None)
        if row is not None:
            self._rows_bytes -= len(row[1]) + ROW_BYTES
        return row

    def due_ms(self, check_times: int = 0) -> int:
        """When a half that is stored now, after so many checks, is to be checked. It says so itself: settings may
        change while it waits."""
        limits = self._limits
        return self._executor.log.now_ms() + wait_ms(check_times, limits.timeout_ms, limits.check_interval_ms)

    # Resolutions -----------------------------------------------------------------------------

    async def resolve(self, transaction_id: str, group: str, resolution: str, caller: Caller | None = None) -> None:
        """Take one resolution. `caller`: who asks, and may need the right to; None: the broker itself. Raises
        `TransactionNotFound`, `TransactionResolved`, `InvalidRequest`, `Forbidden`, `StoreUnwritable`."""
        (answer,) = await self._resolve_all([(transaction_id, resolution)], group, caller)
        if answer is not None:
            raise answer

    async def resolve_open(self, half_id: str, group: str, resolution: str, check: CheckHalf) -> None:
        """Take one resolution of a transaction, by its first half, from who isn't its producer. The same resolution
        again is no error, also after it took effect, as long as the half can be read. `check` may refuse that of its
        topic, for which it has waited since the position. Raises `TransactionNotFound`, `MessageNotFound`, and what
        `resolve` does."""
        origin = self._executor.ids.position(half_id)
        transactions = self._executor.state.transactions
        half = transactions.find(origin)
        if half is None and transactions.outcome(origin) is None:
            raise TransactionNotFound(f"no transaction begins with the half message {half_id!r}")
        part = await self._executor.read_one(origin if half is None else half.cause)
        topic = None if part is None else part.value("real_topic", part.numbers[0])
        if part is None or topic is None:
            raise TransactionNotFound(f"the half message {half_id!r} can't be found any more")
        check(topic, origin)
        if part.value("group", part.numbers[0]) != group:
            raise InvalidRequest(f"the transaction is not of producer group {group!r}")
        await self.resolve(self._secret_ids.of(origin), group, resolution)

    async def resolve_many(
        self, resolutions: Sequence[tuple[str, str]], group: str, caller: Caller | None = None
    ) -> list[Resolved]:
        """Take many, and say of each what became of it. Raises `StoreUnwritable` for all."""
        answers = await self._resolve_all(resolutions, group, caller)
        return [
            Resolved(transaction_id, "ok" if answer is None else answer.code, "" if answer is None else answer.detail)
            for (transaction_id, _), answer in zip(resolutions, answers, strict=True)
        ]

    async def _resolve_all(
        self, resolutions: Sequence[tuple[str, str]], group: str, caller: Caller | None
    ) -> list[LakemqError | None]:
        answers: list[LakemqError | None] = [None] * len(resolutions)
        origins = await self._parse_all(resolutions, answers)
        if caller is not None and (check := check_of(caller)) is not None:
            origins = await self._permitted(origins, answers, check)
        await self._until_nobody_resolves(origins)
        chosen: list[Chosen] = []
        for origin, (number, resolution) in origins.items():
            try:
                half = self._check(origin, group, resolution)
            except LakemqError as error:
                answers[number] = alone(error)
            else:
                if half is not None:
                    chosen.append((half, resolution))
        if chosen:
            for half, resolution in await self._carry_out(chosen, group):
                if resolution == "commit":
                    gone = TransactionResolved("the transaction was given up in the meantime: rollback")
                    answers[origins[half.origin][0]] = gone
        return answers

    async def _parse_all(
        self, resolutions: Sequence[tuple[str, str]], answers: list[LakemqError | None]
    ) -> dict[int, tuple[int, str]]:
        """`(number, resolution)` by the transactions' origins; what is wrong goes to `answers`."""
        pause, origins = Pause(), dict[int, tuple[int, str]]()
        for number, (transaction_id, resolution) in enumerate(resolutions):
            await pause()
            try:
                origin = self._parse(transaction_id, resolution)
                if origin in origins and origins[origin][1] != resolution:
                    raise InvalidRequest(f"transaction {transaction_id!r} is there twice, with two resolutions")
                origins.setdefault(origin, (number, resolution))
            except LakemqError as error:
                answers[number] = alone(error)
        return origins

    async def _permitted(
        self, origins: dict[int, tuple[int, str]], answers: list[LakemqError | None], check: Check
    ) -> dict[int, tuple[int, str]]:
        """Those that `check` doesn't refuse. One that isn't open now is no half to look at, and may not begin while
        others are looked at: it is answered now too."""
        halves = [half for origin in origins if (half := self._executor.state.transactions.find(origin)) is not None]
        refusals = await refusals_of(halves, self._rows_of, check)
        found = {half.origin for half in halves}
        for origin, (number, _) in origins.items():
            if origin in refusals:
                answers[number] = refusals[origin]
            elif origin not in found and self._executor.state.transactions.outcome(origin) is None:
                answers[number] = self._unknown(origin)
        return {origin: asked for origin, asked in origins.items() if answers[asked[0]] is None}

    def _unknown(self, origin: int) -> TransactionNotFound:
        return TransactionNotFound(f"no transaction {self._executor.message_id(origin)!r} is known here")

    def has_room(self) -> bool:
        """Whether one more may be open."""
        return len(self._executor.state.transactions) < self._limits.open_max

    def commit_now(self, origin: int, group: str, may: Callable[[str], bool], waiting: Receiver[Stored]) -> bool:
        """Begin to write a commit for which nothing has to be waited; False, and nothing done, else. `may`: whether it
        may be, by its topic."""
        executor = self._executor
        half = executor.state.transactions.find(origin)
        if half is None or half.resolution is not None or half.group != group or not self._anticipate:
            return False
        cause = half.cause
        row = self._rows.get(cause)
        operations = executor.log.topics.find(OP_TOPIC)
        if row is None or operations is None or origin in self._resolving or not executor.is_free(cause):
            return False
        topic = executor.log.topics.find_for(value_of(row, "real_topic"), origin)
        if topic is None or not may(topic.name):
            return False
        operation = self._operation(half, "commit", group)
        copy, queue = self._copy(cause, origin, row, topic)
        self._resolving[origin] = asyncio.get_running_loop().create_future()
        executor.claim_one(cause)
        queues = [queue, operations.queues[0]]
        executor.log.submit(
            RowsAppend([copy, operation], queues), Committing(partial(self._committed, origin, cause), waiting)
        )
        return True

    def _committed(self, origin: int, cause: int, stored: bool) -> None:
        """What `commit_now` began has ended."""
        if stored:
            self._take_kept(cause)
        self._executor.release((cause,))
        self._resolving.pop(origin).set_result(None)

    def _parse(self, transaction_id: str, resolution: str) -> int:
        if resolution not in RESOLUTIONS:
            raise InvalidRequest(f"resolution is one of {', '.join(RESOLUTIONS)}, not {resolution[:100]!r}")
        origin = self._secret_ids.find(transaction_id)
        if origin is None:
            raise TransactionNotFound(f"{transaction_id[:200]!r} is no transaction of this broker's log")
        return origin

    async def _until_nobody_resolves(self, origins: dict[int, tuple[int, str]]) -> None:
        while True:
            others = {self._resolving[origin] for origin in origins if origin in self._resolving}
            if not others:
                return
            await asyncio.wait(others)

    def _check(self, origin: int, group: str, resolution: str) -> OpenHalf | None:
        """The transaction if it is open; None if it was resolved so already."""
        transactions = self._executor.state.transactions
        half = transactions.find(origin)
        if half is None or half.resolution is not None:
            outcome = transactions.outcome(origin)
            if outcome is None:
                raise self._unknown(origin)
            if resolution not in ("unknown", outcome):
                raise TransactionResolved(f"the transaction was resolved before: {outcome}")
            return None
        if half.group != group:
            raise InvalidRequest(f"the transaction is not of producer group {group!r}")
        return half

    async def _carry_out(self, chosen: list[Chosen], group: str) -> list[Chosen]:
        """Resolve them; returns those that were given up before."""
        done = asyncio.get_running_loop().create_future()
        for half, _ in chosen:
            self._resolving[half.origin] = done
        try:
            return await self._append(chosen, group)
        finally:
            for half, _ in chosen:
                del self._resolving[half.origin]
            done.set_result(None)

    async def _append(self, chosen: list[Chosen], group: str) -> list[Chosen]:
        """Write the operations, and the effects of those that are anticipated."""
        gone: list[Chosen] = []
        operations = (await self._executor.ensure_topic(OP_TOPIC)).queues[0]
        await self._executor.ensure_topic(DECISION_TOPIC)
        left = chosen
        while left:
            again: list[Chosen] = []
            async for some, rows in self._portions(left):
                # A check or a give-up may be under way: what it leaves behind is what is resolved.
                await self._executor.settled([half.cause for half, _ in some])
                now = self._as_of_now(some, gone)
                kept = [each for each in now if each[0].cause in rows or not self._needs_row(each)]
                missed = await self._write_operations(kept, group, operations, rows)
                again += [each for each in now if each not in kept] + self._as_of_now(missed, gone)
            left = again
        for half, resolution in chosen:
            if resolution != "unknown":
                self._take_kept(half.cause)
        return gone

    def _needs_row(self, chosen: Chosen) -> bool:
        return chosen[1] == "commit" and self._anticipate

    async def _portions(self, chosen: list[Chosen]) -> AsyncIterator[tuple[list[Chosen], dict[int, Row]]]:
        """The transactions in portions, with the rows of those that are committed. Raises `LogDamaged`
        at the end when rows can't be read."""
        plain = [each for each in chosen if not self._needs_row(each)]
        for some in batched(plain, AT_ONCE_MAX):
            yield some, {}
        by_cause = {each[0].cause: each for each in chosen if self._needs_row(each)}
        found = 0
        async for rows in self._rows_of(list(by_cause)):
            found += len(rows)
            yield [by_cause[cause] for cause in rows], rows
        if found < len(by_cause):
            raise LogDamaged(f"{len(by_cause) - found} halves can't be read: the log is damaged")

    def _as_of_now(self, chosen: list[Chosen], gone: list[Chosen]) -> list[Chosen]:
        """The same transactions after checks; those that were given up go to `gone`."""
        now: list[Chosen] = []
        for half, resolution in chosen:
            half_now = self._executor.state.transactions.find(half.origin)
            if half_now is None:
                gone.append((half, resolution))
            else:
                now.append((half_now, resolution))
        return now

    async def _write_operations(
        self, chosen: list[Chosen], group: str, operations: Queue, rows: dict[int, Row]
    ) -> list[Chosen]:
        """One frame with all of it; returns those whose half was taken by a check in between."""
        effects: list[tuple[int | None, Row, Queue]] = []
        owners: list[Chosen] = []
        plain: list[tuple[Row, Queue]] = []
        for half, resolution in chosen:
            operation = self._operation(half, resolution, group)
            if resolution == "rollback" and self._anticipate:
                effects.append((half.cause, change_row(operation, cause=half.cause), operations))
                owners.append((half, resolution))
                continue
            plain.append((operation, operations))
            if resolution == "commit" and self._anticipate:
                effects.append(self._commit(half.cause, half.origin, rows[half.cause]))
                owners.append((half, resolution))
        # Held while the operation is written, so that no decision comes in between.
        holding = [] if self._anticipate else [half.cause for half, _ in chosen]
        placed = await self._executor.execute(effects, plain, holding)
        missed = [owner for owner, where in zip(owners, placed, strict=True) if where is None]
        # Of a commit the operation is in the log now, and outdoes what comes for its half later.
        return [(half, resolution) for half, resolution in missed if resolution == "rollback"]

    def _operation(self, half: OpenHalf, tag: str, group: str) -> Row:
        """The row of an operation. It names the half that waits now, and until when: by that the query finds it."""
        limits, message_id = self._limits, self._executor.message_id
        return make_row(
            body=b"",
            tag=tag,
            deliver_at_ms=half.due(limits.timeout_ms, limits.check_interval_ms),
            origin_message_id=message_id(half.cause),
            transaction_id=message_id(half.origin),
            group=group,
        )

    async def _rows_of(self, causes: Sequence[int]) -> AsyncIterator[dict[int, Row]]:
        """The rows of halves by position, kept or read, in portions. Those that can't be read are in none."""
        kept = {cause: self._rows[cause] for cause in causes if cause in self._rows}
        for some in batched(list(kept), AT_ONCE_MAX):
            yield {cause: kept[cause] for cause in some}
        left: Sequence[int] = [cause for cause in causes if cause not in kept]
        while left:
            found = await self._executor.read_some(left)
            for part in found.parts:
                for piece in part.pieces(AT_ONCE_MAX):
                    yield piece.rows()
            left = found.left

    def _commit(self, cause: int, origin: int, row: Row) -> tuple[int, Row, Queue]:
        """The copy in the half's topic; where that was deleted, a row that says so."""
        topic = self._executor.log.topics.find_for(value_of(row, "real_topic"), origin)
        if topic is None:
            dropped = make_row(body=b"", tag="drop", transaction_id=self._executor.message_id(origin), cause=cause)
            return cause, dropped, self._queue_of(DECISION_TOPIC)
        return cause, *self._copy(cause, origin, row, topic)

    def _copy(self, cause: int, origin: int, row: Row, topic: Topic) -> tuple[Row, Queue]:
        """What consumers see, and its queue."""
        queue = topic.queues[value_of(row, "real_queue_id") % len(topic.queues)]
        copy = change_row(
            row,
            cause=cause,
            transaction_id=self._secret_ids.of(origin),
            origin_message_id=origin_of(row, self._executor.message_id(origin)),
            real_topic=None,
            real_queue_id=None,
            group=None,
            check_times=None,
            deliver_at_ms=None,
        )
        return copy, queue

    # Decisions of the query ------------------------------------------------------------------

    async def decide(self, actions: dict[int, str]) -> int:
        """Carry out decisions by cause, where it is pending; returns how many that were.

        An operation that is in the log outdoes a check and a give-up: it was answered.
        """
        for name in (HALF_TOPIC, DECISION_TOPIC, CHECK_MAX_TOPIC):
            await self._executor.ensure_topic(name)
        await self._executor.settled(actions)
        accepted = 0
        async for rows in self._rows_of([cause for cause in actions if cause in self._executor.state.halves]):
            await self._executor.settled(rows)
            # From here to the claims nothing comes in between: an operation would count.
            effects: list[tuple[int | None, Row, Queue]] = []
            for cause, row in rows.items():
                transaction_id = value_of(row, "transaction_id") or self._executor.message_id(cause)
                half = self._executor.state.transactions.find(position_of(transaction_id))
                if half is not None and half.cause == cause:
                    effects.append(self._effect(half, row, half.resolution or actions[cause]))
            placed = await self._executor.execute(effects)
            accepted += sum(where is not None for where in placed)
        return accepted

    async def drop(self, causes: Sequence[int]) -> None:
        """Roll back the open transactions of these halves, whatever was said of them: the halves are
        about to be erased, and nothing of them is kept. Raises `StoreUnwritable`."""
        await self._executor.ensure_topic(DECISION_TOPIC)
        await self._executor.settled(causes)
        async for rows in self._rows_of([cause for cause in causes if cause in self._executor.state.halves]):
            effects: list[tuple[int | None, Row, Queue]] = []
            for cause, row in rows.items():
                transaction_id = value_of(row, "transaction_id") or self._executor.message_id(cause)
                half = self._executor.state.transactions.find(position_of(transaction_id))
                if half is not None and half.cause == cause:
                    effects.append(self._effect(half, row, "rollback"))
            await self._executor.execute(effects)
        for cause in causes:
            self._take_kept(cause)

    async def end_lost(self, causes: Sequence[int]) -> int:
        """Roll back the open transactions of those halves that are nowhere any more; how many. Raises
        `StoreUnwritable`, `LakeUnreadable`."""
        await self._executor.settled(causes)
        there: set[int] = set()
        async for rows in self._rows_of(causes):
            there.update(rows)
        lost = set(causes).difference(there)
        if not lost:
            return 0
        await self._executor.ensure_topic(DECISION_TOPIC)
        halves = self._executor.state.transactions.of_causes(lost)
        effects = [self._rollback(half) for half in halves]
        logger.error("%d open transactions are rolled back: their messages are lost", len(effects))
        return sum(where is not None for where in await self._executor.execute(effects))

    def _queue_of(self, topic: str) -> Queue:
        return self._executor.log.topics.queue(topic, 0)

    def _effect(self, half: OpenHalf, row: Row, action: str) -> tuple[int, Row, Queue]:
        cause, transaction_id = half.cause, self._executor.message_id(half.origin)
        if action == "commit":
            return self._commit(cause, half.origin, row)
        if action == "check":
            check_times = half.check_times + 1
            changed = {"cause": cause, "transaction_id": transaction_id, "check_times": check_times}
            again = change_row(row, **changed, deliver_at_ms=self.due_ms(check_times))
            return cause, again, self._queue_of(HALF_TOPIC)
        if action == "give_up":
            copy = change_row(row, cause=cause, transaction_id=self._secret_ids.of(half.origin), deliver_at_ms=None)
            return cause, copy, self._queue_of(CHECK_MAX_TOPIC)
        return self._rollback(half)

    def _rollback(self, half: OpenHalf) -> tuple[int, Row, Queue]:
        transaction_id = self._executor.message_id(half.origin)
        row = make_row(body=b"", tag="rollback", cause=half.cause, transaction_id=transaction_id, group=half.group)
        return half.cause, row, self._queue_of(DECISION_TOPIC)


def batched(items: list[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
