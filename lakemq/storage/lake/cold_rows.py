"""Messages of the lake's table `messages`, as the log's readers know messages."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from lakemq.model.columns import COMPUTED, MESSAGE, STORED, TIMES
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.segment import Frame
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.message_ids import MessageIds

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

_NAME = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("us", tz="UTC")
_LAKE_NAMES = {name: lake_name for lake_name, name in TIMES.items()}
_TABLE_TYPES = {"topic": _NAME}

LAKE_MESSAGES: pa.Schema = pa.schema(
    [
        pa.field("broker", _NAME),
        *(
            pa.field(_LAKE_NAMES[field.name], _TIME)
            if field.name in _LAKE_NAMES
            else pa.field(field.name, _TABLE_TYPES.get(field.name, field.type))
            for field in (*COMPUTED, *STORED)
            if field.name != "message_id"
        ),
    ]
)
"""What is read of the table. An id follows from broker and position."""

COLD: pa.Schema = pa.schema([*COMPUTED, *STORED])
"""All that is known of a message; what stands in a frame's header too."""


class ColdSlice(NamedTuple):
    """Rows `row … row + count` of a batch of `COLD`: messages of one queue, ascending by offset, but
    not dense: what was erased is not there. `frame` has that batch, and a header that says nothing."""

    frame: Frame
    row: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return self.frame.batch.slice(self.row, self.count)

    @property
    def end_queue_offset(self) -> int:
        """The offset after the last row."""
        return self.frame.batch.column("queue_offset")[self.row + self.count - 1].as_py() + 1


def as_slice(batch: pa.RecordBatch) -> ColdSlice:
    """All rows of a batch of `COLD`."""
    return ColdSlice(Frame(Meta(KIND_MESSAGES, 0, 0, 0, 0, (), b"", 0, 0, 0), Columns(batch)), 0, batch.num_rows)


def as_cold(batch: pa.RecordBatch, ids: MessageIds) -> pa.RecordBatch:
    """Rows of `LAKE_MESSAGES` as `COLD`."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for lake_name, name in TIMES.items():
        columns[name] = columns[lake_name].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    columns["topic"] = columns["topic"].cast(pa.string())
    columns["born_time_ms"] = pc.coalesce(columns["born_time_ms"], columns["store_time_ms"])
    columns["reconsume_times"] = pc.fill_null(columns["reconsume_times"], 0)
    columns["message_id"] = ids.column(columns["position"])
    return pa.RecordBatch.from_arrays([columns[field.name] for field in COLD], schema=COLD)


def as_parts(batch: pa.RecordBatch) -> list[FrameRows]:
    """Each row of a batch of `COLD` as a frame of its own, for who makes copies of frames' rows."""
    parts: list[FrameRows] = []
    for number, row in enumerate(batch.select([field.name for field in COMPUTED]).to_pylist()):
        run = Run(row["topic"], row["queue_id"], row["queue_offset"], 1, 0)
        meta = Meta(KIND_MESSAGES, row["position"], row["store_time_ms"], 1, 0, (run,), b"", 0, 0, 0)
        stored = batch.slice(number, 1)
        there = [field.name for field in STORED if stored.column(field.name).null_count == 0]
        parts.append(FrameRows(Frame(meta, Columns(stored.select(there))), [0]))
    return parts


def as_slices(part: ColdSlice) -> list[Slice]:
    """The rows as slices of frames, for who reads messages of the log: each is a stretch that is dense in
    offset and in position and was stored at one time."""
    batch = part.batch
    rows = batch.select([field.name for field in COMPUTED]).to_pylist()
    stored = batch.select([field.name for field in STORED if batch.column(field.name).null_count < batch.num_rows])
    slices: list[Slice] = []
    begin = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and _follows(rows[end - 1], rows[end]):
            continue
        first, count = rows[begin], end - begin
        run = Run(first["topic"], first["queue_id"], first["queue_offset"], count, 0)
        meta = Meta(KIND_MESSAGES, first["position"], first["store_time_ms"], count, 0, (run,), b"", 0, 0, 0)
        slices.append(Slice(Frame(meta, Columns(stored.slice(begin, count))), run, 0, count))
        begin = end
    return slices


def _follows(before: dict[str, Any], after: dict[str, Any]) -> bool:
    dense = all(after[name] == before[name] + 1 for name in ("queue_offset", "position"))
    return dense and after["store_time_ms"] == before["store_time_ms"]


def message_columns(part: ColdSlice, schema: pa.Schema = MESSAGE) -> pa.RecordBatch:
    """The slice's messages with the columns of `schema`, some of `COLD`."""
    batch = part.batch
    return pa.RecordBatch.from_arrays([batch.column(field.name) for field in schema], schema=schema)
