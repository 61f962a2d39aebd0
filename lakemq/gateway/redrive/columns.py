"""Dead letters as the rows that a predicate is about: those of the lake's table `messages`."""

from __future__ import annotations

import pyarrow as pa

from lakemq.model.columns import COMPUTED, STORED, TIMES
from lakemq.storage.read.reader import Slice
from lakemq.storage.slices.messages import to_batch
from lakemq.storage.state.message_ids import MessageIds

_LOG = {field.name: field for field in [*COMPUTED, *STORED]}
_TIME = pa.timestamp("ms", tz="UTC")

COLUMNS: dict[str, pa.DataType] = {
    "broker": pa.string(),
    **{name: field.type for name, field in _LOG.items() if name not in TIMES.values()},
    **dict.fromkeys(TIMES, _TIME),
    "store_date": pa.date32(),
}
"""By name. A predicate tried with `lakemq sql` on `messages` means the same here."""


def to_rows(part: Slice, ids: MessageIds, columns: frozenset[str]) -> pa.RecordBatch:
    """The slice's messages, with those columns of `COLUMNS`; at least with `position`."""
    wanted = sorted(columns) or ["position"]
    sources = {_source(name) for name in wanted if name != "broker"}
    batch = to_batch(part, ids, pa.schema([_LOG[name] for name in sorted(sources)]))
    made = [_column(batch, name, ids.broker, part.count) for name in wanted]
    return pa.RecordBatch.from_arrays(made, names=wanted)


def _source(name: str) -> str:
    return "store_time_ms" if name == "store_date" else TIMES.get(name, name)


def _column(batch: pa.RecordBatch, name: str, broker: str, count: int) -> pa.Array:
    if name == "broker":
        return pa.repeat(pa.scalar(broker), count)
    column = batch.column(_source(name))
    if name in TIMES:
        return column.cast(_TIME)
    if name == "store_date":
        return column.cast(_TIME).cast(pa.date32())
    return column
