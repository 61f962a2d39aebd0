"""Spans of messages that come again by a sink, as a replay's do: each in its message's own trace, where that is
recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.contract import spans as names
from lakemq.gateway.effects.parents import said_in
from lakemq.model.trace_parent import trace_parent_of
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers
logger = logging.getLogger(__name__)

OF_ONE_PART_MAX = 1_000
"""So many spans a part has at most; the others are dropped, and counted."""


class CopySpans:
    """Those of one broker. `message_id`: that of the message at a position."""

    def __init__(self, spans: Spans, message_id: Callable[[int], str]) -> None:
        self._spans = spans
        self._message_id = message_id

    def note(self, rows: pa.RecordBatch, topic: str, group: str | None, first_position: int, time_ms: int) -> None:
        """These rows were stored from that position on, of which some may be copies. Looks at all of them: for a thread
        that isn't the loop's. Raises nothing."""
        try:
            if {"properties", "origin_message_id"} <= set(rows.schema.names):
                self._note(rows, topic, group, first_position, time_ms)
        except Exception:  # what is stored is stored: nothing of it depends on this
            logger.exception("could not make the spans of copies")

    def _note(self, rows: pa.RecordBatch, topic: str, group: str | None, first_position: int, time_ms: int) -> None:
        parents, recorded = said_in(rows.column("properties"))
        numbers = pc.indices_nonzero(pc.and_(recorded, pc.is_valid(rows.column("origin_message_id"))))
        self._spans.drop(max(len(numbers) - OF_ONE_PART_MAX, 0))
        numbers = numbers.slice(0, OF_ONE_PART_MAX)
        told = zip(
            numbers.to_pylist(),
            parents.take(numbers).to_pylist(),
            rows.column("origin_message_id").take(numbers).to_pylist(),
            strict=True,
        )
        operation = names.REPLAY
        for number, said, origin in told:
            parent = trace_parent_of(said)
            if parent is None:
                continue
            attributes = operation.attributes(topic, group or "")
            attributes |= {names.MESSAGE_ID: self._message_id(first_position + number), names.ORIGIN_ID: origin}
            name = operation.span_name(topic)
            self._spans.add(Span(name, operation.kind, time_ms * MS, time_ms * MS, attributes, parent))
