"""Spans of what becomes of messages after they were sent: each effect is one of its message's own trace, where that is
recorded. Whoever decided it, the log has it, so this reads what is written to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakemq.contract import spans as names
from lakemq.contract.spans import Operation, Value
from lakemq.gateway.effects.executor import Executor
from lakemq.model.errors import LakemqError
from lakemq.model.failure import FAILURE_CLASS
from lakemq.model.names import (
    ACK_TOPIC,
    CHECK_MAX_TOPIC,
    DEAD_LETTER_PREFIX,
    DECISION_TOPIC,
    DISCARD_TOPIC,
    HALF_TOPIC,
    NACK_TOPIC,
    OP_TOPIC,
    REDRIVE_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)
from lakemq.model.trace_parent import TRACE_PARENT, TraceParent, trace_parent_of
from lakemq.storage.read.row_reader import FrameRows
from lakemq.storage.read.stored_times import stored_by_ms
from lakemq.storage.segment.content import Columns, Content
from lakemq.storage.segment.frame import Meta, Run
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans

logger = logging.getLogger(__name__)

LOOKED_UP_MAX = 1_000
"""So many halves that were rolled back wait to be read for their traces: the row that says it has none."""
_COLUMNS = (
    *("cause", "deliver_at_ms", "real_topic", "retry_topic", "reconsume_times", "check_times"),
    *("origin_message_id", "properties"),
)
_IS_PARENT = pc.IndexOptions(pa.scalar(TRACE_PARENT))
_SETTLED = {names.RETRY, names.DEAD_LETTER}
_FAILED = {names.DEAD_LETTER, names.GIVE_UP}
_OF_NO_MESSAGE = (ACK_TOPIC, NACK_TOPIC, REDRIVE_TOPIC, DISCARD_TOPIC)
_ABOUT_REAL = (RETRY_PREFIX, DEAD_LETTER_PREFIX, HALF_TOPIC, CHECK_MAX_TOPIC)
"""Begins of topics whose messages have that of theirs as `real_topic`."""


class _Effect(NamedTuple):
    """A row that is the effect of a cause."""

    cause: int
    due_ms: int | None
    real_topic: str | None
    retry_topic: str | None
    reconsume_times: int | None
    check_times: int | None
    origin: str | None
    properties: dict[str, str] | None


class EffectSpans:
    """Those of one broker's log. Told of each run of rows with causes, before these are settled. Raises nothing."""

    def __init__(self, spans: Spans, executor: Executor) -> None:
        self._spans = spans
        self._executor = executor
        self._rolled_back: dict[int, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def note(self, meta: Meta, content: Content, run: Run) -> None:
        """Rows of the run have come into the log."""
        try:
            self._note(meta, content, run)
        except Exception:  # what is written is written: nothing of it depends on this
            logger.exception("could not make the spans of effects")

    async def close(self) -> None:
        """Look up no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def _note(self, meta: Meta, content: Content, run: Run) -> None:
        if run.topic in (OP_TOPIC, DECISION_TOPIC):
            halves = self._executor.state.halves
            causes = zip(*(content.values(name, run.row, run.count) for name in ("cause", "tag")), strict=True)
            self._look_up([cause for cause, tag in causes if tag == "rollback" and cause in halves], meta.store_time_ms)
            return
        if run.topic in _OF_NO_MESSAGE or not _may_have_parents(content):
            return
        columns = [content.values(name, run.row, run.count) for name in _COLUMNS]
        for number, effect in enumerate(map(_Effect._make, zip(*columns, strict=True))):
            parent = _parent_of(effect.properties)
            if parent is None or effect.cause is None:  # pyright: ignore[reportUnnecessaryComparison]
                continue
            found = self._operation(effect, run.topic)
            if found is not None:
                operation, begin_ms = found
                message_id = self._executor.message_id(meta.first_position + run.row + number)
                self._add(
                    operation, begin_ms, meta.store_time_ms, parent, _said(operation, effect, run.topic, message_id)
                )

    def _operation(self, effect: _Effect, topic: str) -> tuple[Operation, int | None] | None:
        """What the effect is, by what its cause was until now, and since when it was to come."""
        state, cause = self._executor.state, effect.cause
        if cause in state.receipts.out:
            return _given_back(topic, state.receipts.out[cause].until_ms)
        if cause in state.delays:
            return None if topic == SCHEDULE_TOPIC else (names.DELIVER, effect.due_ms)
        if cause in state.halves:
            return {HALF_TOPIC: names.CHECK, CHECK_MAX_TOPIC: names.GIVE_UP}.get(topic, names.COMMIT), None
        if cause in state.nacks:
            return _given_back(topic, stored_by_ms(self._executor.reader, cause))
        return (names.REDRIVE, None) if cause in state.dead and topic.startswith(RETRY_PREFIX) else None

    def _add(
        self,
        operation: Operation,
        begin_ms: int | None,
        end_ms: int,
        parent: TraceParent,
        attributes: Mapping[str, Value],
    ) -> None:
        begin_ns = min(end_ms if begin_ms is None else begin_ms, end_ms) * MS
        name = operation.span_name(str(attributes[names.TOPIC]))
        error = "" if operation in _FAILED else None
        self._spans.add(Span(name, operation.kind, begin_ns, end_ms * MS, attributes, parent, error=error))

    # Halves that were rolled back ------------------------------------------------------------

    def _look_up(self, causes: list[int], time_ms: int) -> None:
        """Read these halves for their traces, later."""
        room = LOOKED_UP_MAX - len(self._rolled_back)
        self._spans.drop(max(len(causes) - room, 0))
        self._rolled_back |= dict.fromkeys(causes[:room], time_ms)
        if self._rolled_back and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while self._rolled_back:
            ended, self._rolled_back = self._rolled_back, {}
            try:
                async for part in self._executor.read_all(sorted(ended)):
                    self._note_rollbacks(part, ended)
            except (LakemqError, OSError) as error:
                logger.warning("could not make the spans of halves that were rolled back: %s", error)

    def _note_rollbacks(self, part: FrameRows, ended: Mapping[int, int]) -> None:
        for number in part.numbers:
            parent = _parent_of(part.value("properties", number))
            if parent is None:
                continue
            position = part.frame.meta.first_position + number
            attributes = names.ROLLBACK.attributes(part.value("real_topic", number))
            attributes[names.MESSAGE_ID] = self._executor.message_id(position)
            self._add(names.ROLLBACK, None, ended[position], parent, attributes)


def _given_back(topic: str, since_ms: int) -> tuple[Operation, int] | None:
    """What becomes of a message that a group could not process."""
    if topic.startswith(DEAD_LETTER_PREFIX):
        return names.DEAD_LETTER, since_ms
    return (names.RETRY, since_ms) if topic == SCHEDULE_TOPIC or topic.startswith(RETRY_PREFIX) else None


def _said(operation: Operation, effect: _Effect, topic: str, message_id: str) -> dict[str, Value]:
    """The span's attributes."""
    destination, group = topic, ""
    if topic == SCHEDULE_TOPIC:
        destination, group = effect.retry_topic, (effect.real_topic or "").removeprefix(RETRY_PREFIX)
        message_id = effect.origin or message_id  # nobody is given the one that waits
    elif topic.startswith(_ABOUT_REAL):
        destination = effect.real_topic
        if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            group = topic.removeprefix(RETRY_PREFIX).removeprefix(DEAD_LETTER_PREFIX)
    said = operation.attributes(destination or topic, group)
    said[names.MESSAGE_ID] = message_id
    failure = (effect.properties or {}).get(FAILURE_CLASS) if operation in _SETTLED else None
    due_ms = effect.due_ms if operation in (names.DELIVER, names.RETRY) else None
    more = {
        names.ORIGIN_ID: effect.origin,
        names.DUE: due_ms,
        names.RECONSUME_TIMES: effect.reconsume_times,
        names.CHECK_TIMES: effect.check_times,
        names.ERROR: failure,
    }
    return said | {name: value for name, value in more.items() if value is not None}


def _may_have_parents(content: Content) -> bool:
    """Whether any row has a trace: a look at the columns takes Arrow some microseconds, rows as objects far longer."""
    if not isinstance(content, Columns):
        return True
    if "properties" not in content.batch.schema.names:
        return False
    keys = content.batch.column("properties").keys
    return pc.call_function("index", [keys], _IS_PARENT).as_py() >= 0


def _parent_of(properties: Any) -> TraceParent | None:
    """The message's trace, if it is recorded."""
    parent = trace_parent_of(properties[TRACE_PARENT]) if properties and TRACE_PARENT in properties else None
    return parent if parent is not None and parent.sampled else None
