"""What waits, listed for the query that decides it: what each cause is and when it is due, without a look at the log.

The rows are those of the system topics, with the columns alone by which the query decides. A listing is read page by
page, ascending by cause, and each page says what waits as it is made. A cause that began before the first page, and
waits still, is in one of them: neither its position nor when it is due ever changes. What began later may be missing,
and stands in the log from the position on that `GET /v1/routing` said before. One that has ended meanwhile, or is
listed twice, changes nothing.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)
from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor
from lakemq.model.columns import READABLE
from lakemq.model.decide import Kind
from lakemq.model.names import HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.settings import Transactions as Limits
from lakemq.storage.segment.rows import value_of
from lakemq.storage.state.due_times import DueTimes
from lakemq.storage.state.open_halves import OpenHalf
from lakemq.storage.state.receipts import Out

SCHEMA = pa.schema(
    [
        pa.field(name, READABLE[name].type)
        for name in (
            *("position", "topic", "tag", "origin_message_id", "properties", "deliver_at_ms", "store_time_ms"),
            *("reconsume_times", "check_times"),
        )
    ]
)


class Due(NamedTuple):
    """Due times in ms, `begin_ms ≤ t < end_ms`. From 0 on there is also what waits for nothing but its decision."""

    begin_ms: int
    end_ms: int

    def holds(self, due_ms: int) -> bool:
        return self.begin_ms <= due_ms < self.end_ms


Page = tuple[memoryview, int | None]
"""An Arrow stream of `SCHEMA`, and after which cause the next page begins; None: it was the last."""
InThread = Callable[..., Awaitable[Page]]
"""Calls a function with what follows it, in a thread."""


class Pending:
    """Lists what one broker's log has pending."""

    def __init__(self, executor: Executor, limits: Limits) -> None:
        self._executor = executor
        self._limits = limits

    async def page(self, kind: Kind, due: Due, after: int, count_max: int, run: InThread) -> Page:
        """What of the kind is due then, from the first cause beyond `after` on: `count_max` at most."""
        state = self._executor.state
        if kind is Kind.DELAY:
            times, undecided = state.due_times.copy(), partial(_is_in, state.delays, state.decided)
            return await run(_delays, times, undecided, due, after, count_max)
        if kind is Kind.TRANSACTION:
            chosen = _next(state.halves, after, count_max)
            return await run(self._halves, state.transactions.all(), chosen, due, count_max)
        if kind is Kind.RECEIPT:
            return await run(_receipts, list(state.receipts.out.items()), due, after, count_max)
        return await self._nacks(due, after, min(count_max, AT_ONCE_MAX))

    def _halves(self, halves: list[OpenHalf], chosen: BitMap64, due: Due, count_max: int) -> Page:
        limits, rows = self._limits, _Rows()
        for half in sorted((half for half in halves if half.cause in chosen), key=lambda half: half.cause):
            due_ms = half.due(limits.timeout_ms, limits.check_interval_ms)
            if half.resolution is None and due.holds(due_ms):
                rows.add(
                    half.cause,
                    HALF_TOPIC,
                    deliver_at_ms=due_ms,
                    store_time_ms=half.stored_ms,
                    check_times=half.check_times,
                )
            elif half.resolution is not None and not due.begin_ms:
                named, stored_ms = self._executor.message_id(half.cause), half.resolved_ms
                rows.add(half.cause, OP_TOPIC, tag=half.resolution, origin_message_id=named, store_time_ms=stored_ms)
        return rows.stream(), chosen.max() if len(chosen) == count_max else None

    async def _nacks(self, due: Due, after: int, count_max: int) -> Page:
        """What a nack leads to stands in its row, which has no body."""
        rows = _Rows()
        # Those that left the log are the gateway's own matter.
        after = max(after, self._executor.log.min_position - 1)
        chosen = _next(self._executor.state.nacks, after, count_max) if not due.begin_ms else BitMap64()
        async for part in self._executor.read_all(chosen):
            for position, row in part.rows().items():
                rows.add(
                    position,
                    NACK_TOPIC,
                    properties=list(value_of(row, "properties").items()),
                    store_time_ms=part.frame.meta.store_time_ms,
                    reconsume_times=value_of(row, "reconsume_times"),
                )
        return rows.stream(), chosen.max() if len(chosen) == count_max else None


class _Rows:
    """Rows of `SCHEMA`; what isn't given is null."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add(self, position: int, topic: str, **columns: Any) -> None:
        self._rows.append({"position": position, "topic": topic, **columns})

    def stream(self) -> memoryview:
        return _stream([pa.array([row.get(field.name) for row in self._rows], field.type) for field in SCHEMA])


def _delays(times: DueTimes, undecided: Any, due: Due, after: int, count_max: int) -> Page:
    between = times.between(after, due.begin_ms, due.end_ms)
    found = list(islice((each for each in between if undecided(each[0])), count_max))
    known: dict[str, Sequence[Any]] = {
        "position": [position for position, _ in found],
        "topic": [SCHEDULE_TOPIC] * len(found),
        "deliver_at_ms": [due_ms for _, due_ms in found],
    }
    columns = [
        pa.array(known[field.name], field.type) if field.name in known else pa.nulls(len(found), field.type)
        for field in SCHEMA
    ]
    return _stream(columns), found[-1][0] if len(found) == count_max else None


def _receipts(out: list[tuple[int, Out]], due: Due, after: int, count_max: int) -> Page:
    wanted = (each for each in sorted(out) if each[0] > after and due.holds(each[1].until_ms))
    rows, last, count = _Rows(), after, 0
    for receipt, each in islice(wanted, count_max):
        rows.add(
            receipt,
            RECEIVE_TOPIC,
            deliver_at_ms=each.until_ms,
            properties=[("max_reconsume_times", str(each.max_reconsume_times))],
            reconsume_times=each.reconsume_times,
        )
        last, count = receipt, count + 1
    return rows.stream(), last if count == count_max else None


def _is_in(waiting: BitMap64, done: BitMap64, cause: int) -> bool:
    return cause in waiting and cause not in done


def _next(causes: BitMap64, after: int, count_max: int) -> BitMap64:
    some: Iterable[int] = causes.iter_equal_or_larger(after + 1) if causes and causes.max() > after else ()
    return BitMap64(list(islice(some, count_max)))


def _stream(columns: list[pa.Array]) -> memoryview:
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
