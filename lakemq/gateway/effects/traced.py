"""Spans of what becomes of messages after they were sent: each effect is one of its message's own trace, where that is
recorded. Whoever decided it, the log has it, so this reads what is written to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Set
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakemq.contract import spans as names
from lakemq.contract.spans import Operation, Value
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.effects.parents import parent_of
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
from lakemq.model.trace_parent import TRACE_PARENT, TraceParent
from lakemq.storage.read.stored_times import stored_by_ms
from lakemq.storage.segment.content import Columns, Content
from lakemq.storage.segment.frame import Meta, Run
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans

logger = logging.getLogger(__name__)

LOOKED_UP_MAX = 1_000
"""So many messages wait to be read for their traces, where the row that says what became of one has none."""
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


class _Ended(NamedTuple):
    """What has become of the message at a position, as a record says without what is in it. `topic`, `group` empty:
    the message says which, or nobody. `nack`: the one that it ends; None: none."""

    position: int
    operation: Operation
    begin_ms: int | None
    end_ms: int
    topic: str = ""
    group: str = ""
    nack: int | None = None


class EffectSpans:
    """Those of one broker's log. Told of each run of rows with causes, before these are settled. Raises nothing."""

    def __init__(self, spans: Spans, executor: Executor) -> None:
        self._spans = spans
        self._executor = executor
        self._ended: list[_Ended] = []
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
            rows = zip(*(content.values(name, run.row, run.count) for name in ("cause", "tag")), strict=True)
            found = (self._end_of(cause, tag, meta.store_time_ms) for cause, tag in rows)
            self._look_up([each for each in found if each is not None])
            return
        if run.topic in _OF_NO_MESSAGE or not _may_have_parents(content):
            return
        columns = [content.values(name, run.row, run.count) for name in _COLUMNS]
        for number, effect in enumerate(map(_Effect._make, zip(*columns, strict=True))):
            parent = parent_of(effect.properties)
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

    # What is said by a record without the message --------------------------------------------

    def _end_of(self, cause: int, tag: str, now_ms: int) -> _Ended | None:
        state = self._executor.state
        if tag == "rollback" and cause in state.halves:
            return _Ended(cause, names.ROLLBACK, None, now_ms)
        if tag == "recall" and cause in state.delays:
            return _Ended(cause, names.RECALL, None, now_ms)
        if tag == "expired" and cause in state.receipts.out:
            out = state.receipts.out[cause]
            wanted = out.subscription
            return _Ended(out.message, names.EXPIRE, out.until_ms, now_ms, wanted.topic, wanted.group)
        if tag == "expired" and cause in state.nack_targets:
            begin_ms = stored_by_ms(self._executor.reader, cause)
            return _Ended(state.nack_targets[cause], names.EXPIRE, begin_ms, now_ms, nack=cause)
        return None

    def _look_up(self, ended: list[_Ended]) -> None:
        """Read these messages for their traces, later."""
        room = max(LOOKED_UP_MAX - len(self._ended), 0)
        self._spans.drop(max(len(ended) - room, 0))
        self._ended += ended[:room]
        if self._ended and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while self._ended:
            ended, self._ended = self._ended, []
            by_position: dict[int, list[_Ended]] = {}
            for each in ended:
                by_position.setdefault(each.position, []).append(each)
            groups = self._groups_of({each.nack for each in ended if each.nack is not None})
            try:
                async for part in self._executor.read_all(sorted(by_position)):
                    self._note_ends(part, by_position, groups)
            except (LakemqError, OSError) as error:
                logger.warning("could not make the spans of messages that ended: %s", error)

    def _note_ends(
        self, part: FrameRows, by_position: Mapping[int, list[_Ended]], groups: Mapping[int | None, str]
    ) -> None:
        for number in part.numbers:
            parent = parent_of(part.value("properties", number))
            if parent is None:
                continue
            position = part.frame.meta.first_position + number
            for each in by_position[position]:
                topic = each.topic or part.value("real_topic", number) or part.run_of(number).topic
                attributes = each.operation.attributes(topic, each.group or groups.get(each.nack, ""))
                origin = part.value("origin_message_id", number)
                message_id = self._executor.message_id(position)
                # Nobody is given the id of one that waits, and was moved on.
                attributes[names.MESSAGE_ID] = origin or message_id if each.operation is names.RECALL else message_id
                if origin is not None:
                    attributes[names.ORIGIN_ID] = origin
                self._add(each.operation, each.begin_ms, each.end_ms, parent, attributes)

    def _groups_of(self, nacks: Set[int]) -> Mapping[int | None, str]:
        """Whose they were, as far as that isn't forgotten."""
        if not nacks:
            return {}
        of, wanted = self._executor.state.retries_of, BitMap64(nacks)
        return {nack: group for group in of.groups() for nack in of.of(group) & wanted}


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
