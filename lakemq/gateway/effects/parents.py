"""Which messages have a trace that is recorded, by their properties."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.trace_parent import TRACE_PARENT, TraceParent, trace_parent_of
from lakemq.storage.segment.content import ROWS_MAX, Columns, Content

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_SAMPLED = r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]"


def parent_of(properties: Any) -> TraceParent | None:
    """The message's trace, if it is recorded."""
    parent = trace_parent_of(properties[TRACE_PARENT]) if properties and TRACE_PARENT in properties else None
    return parent if parent is not None and parent.sampled else None


def said_in(properties: pa.Array) -> tuple[pa.Array, pa.Array]:
    """What each says of its trace, and of each whether it is one that is recorded, so far as that is seen at once."""
    said = pc.map_lookup(properties, pa.scalar(TRACE_PARENT), "first")
    return said, pc.fill_null(pc.match_substring_regex(said, _SAMPLED), False)


def recorded_in(content: Content, row: int, count: int) -> list[tuple[int, TraceParent]]:
    """Of rows `row … row + count` those that are recorded, by their number from 0: many are looked at as columns."""
    if not isinstance(content, Columns) or count <= ROWS_MAX:
        found = [(number, parent_of(each)) for number, each in enumerate(content.values("properties", row, count))]
    elif "properties" in content.batch.schema.names:
        said, recorded = said_in(content.batch.column("properties").slice(row, count))
        numbers = pc.indices_nonzero(recorded)
        texts = zip(numbers.to_pylist(), said.take(numbers).to_pylist(), strict=True)
        found = [(number, trace_parent_of(text)) for number, text in texts]
    else:
        found = []
    return [(number, parent) for number, parent in found if parent is not None]
