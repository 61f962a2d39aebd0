"""Rows of the lake as frames of the log again, for where the log's own can't be read."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.columns import COMPUTED, STORED
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.rows import batch_mask
from lakemq.storage.segment.segment import Frame

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

_PLACES = [field.name for field in COMPUTED if field.name != "message_id"]


def as_frames(batch: pa.RecordBatch, borders: Container[int] = ()) -> Iterator[Frame]:
    """The rows of a batch of `cold_rows.COLD`, ascending by position, as frames: each a stretch without a gap
    that was stored at one time. A frame begins at each position that is in `borders`, too."""
    rows = batch.select(_PLACES).to_pylist()
    stored = _as_stored(batch)
    begin = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and _follows(rows[end - 1], rows[end]) and rows[end]["position"] not in borders:
            continue
        yield _frame(rows[begin:end], stored.slice(begin, end - begin))
        begin = end


def _follows(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return after["position"] == before["position"] + 1 and after["store_time_ms"] == before["store_time_ms"]


def _frame(rows: list[dict[str, Any]], batch: pa.RecordBatch) -> Frame:
    kept = [name for name in batch.schema.names if name == "body" or batch.column(name).null_count < batch.num_rows]
    batch = batch.select(kept)
    place = KIND_MESSAGES, rows[0]["position"], rows[0]["store_time_ms"], len(rows), batch_mask(batch)
    return Frame(Meta(*place, _runs(rows), b"", 0, 0, 0), Columns(batch))


def _runs(rows: list[dict[str, Any]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for number, row in enumerate(rows):
        last = runs[-1] if runs else None
        queue, offset = (row["topic"], row["queue_id"]), row["queue_offset"]
        if last is not None and (last.topic, last.queue_id) == queue and last.first_queue_offset + last.count == offset:
            runs[-1] = last._replace(count=last.count + 1)
        else:
            runs.append(Run(*queue, offset, 1, number))
    return tuple(runs)


def _as_stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of frames. What the lake fills in, as every reader does, is left out again."""
    columns = {field.name: batch.column(field.name) for field in STORED}
    same = pc.equal(columns["born_time_ms"], batch.column("store_time_ms"))
    columns["born_time_ms"] = pc.if_else(same, pa.scalar(None, pa.int64()), columns["born_time_ms"])
    first = pc.equal(columns["reconsume_times"], 0)
    columns["reconsume_times"] = pc.if_else(first, pa.scalar(None, pa.int32()), columns["reconsume_times"])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(STORED))
