"""Dead letters as the rows that a predicate is about: those of the lake's table `messages`, and why they failed as the
view `dead_letters` has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.filter import Filter
from lakemq.model.columns import COMPUTED, STORED, TIMES
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_batch
from lakemq.storage.state.message_ids import MessageIds

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_LOG = {field.name: field for field in [*COMPUTED, *STORED]}
_TIME = pa.timestamp("ms", tz="UTC")

COLUMNS: dict[str, pa.DataType] = {
    "broker": pa.string(),
    **{name: field.type for name, field in _LOG.items() if name not in TIMES.values()},
    **dict.fromkeys(TIMES, _TIME),
    "store_date": pa.date32(),
    "failure_class": pa.string(),
    "failure_text": pa.string(),
    "failed_at": _TIME,
    "deliveries": pa.int32(),
    "state": pa.string(),
}
"""By name. A predicate tried with `lakemq sql` on `dead_letters` means the same here."""

_SOURCES = {
    "store_date": "store_time_ms",
    "failed_at": "store_time_ms",
    "deliveries": "reconsume_times",
    "failure_class": "properties",
    "failure_text": "properties",
}
_OF_ALL = ("broker", "state")
_PROPERTIES = {"failure_class": FAILURE_CLASS, "failure_text": FAILURE_TEXT}


def to_rows(part: Slice, ids: MessageIds, columns: frozenset[str]) -> pa.RecordBatch:
    """The slice's messages, with those columns of `COLUMNS`; at least with `position`."""
    wanted = sorted(columns) or ["position"]
    sources = {_source(name) for name in wanted if name not in _OF_ALL} or {"position"}
    batch = to_batch(part, ids, pa.schema([_LOG[name] for name in sorted(sources)]))
    made = [_column(batch, name, ids.broker, part.count) for name in wanted]
    return pa.RecordBatch.from_arrays(made, names=wanted)


def fitting_rows(part: FrameRows, where: Filter, ids: MessageIds) -> frozenset[int]:
    """The numbers of the rows that satisfy the predicate. For any thread. Raises `InvalidFilter`."""
    found: list[int] = []
    for stretch in _stretches(part):
        mask = where.matches(to_rows(stretch, ids, where.columns))
        found += [stretch.row + number for number in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()]
    return frozenset(found)


def _stretches(part: FrameRows) -> Iterator[Slice]:
    """The rows as slices, each of rows that follow one another."""
    begin, count, run = 0, 0, None
    for number in part.numbers:
        here = part.run_of(number)
        if run is not None and run is here and number == begin + count:
            count += 1
            continue
        if run is not None:
            yield Slice(part.frame, run, begin, count)
        begin, count, run = number, 1, here
    if run is not None:
        yield Slice(part.frame, run, begin, count)


def _source(name: str) -> str:
    return _SOURCES.get(name) or TIMES.get(name, name)


def _column(batch: pa.RecordBatch, name: str, broker: str, count: int) -> pa.Array:
    if name == "broker":
        return pa.repeat(pa.scalar(broker), count)
    if name == "state":  # a redrive leaves alone what isn't
        return pa.repeat(pa.scalar("open"), count)
    column = batch.column(_source(name))
    if name in _PROPERTIES:
        return pc.map_lookup(column, pa.scalar(_PROPERTIES[name]), "first")
    if name == "deliveries":
        return pc.add(column.fill_null(0), pa.scalar(1, pa.int32()))
    if name in TIMES or name == "failed_at":
        return column.cast(_TIME)
    if name == "store_date":
        return column.cast(_TIME).cast(pa.date32())
    return column
