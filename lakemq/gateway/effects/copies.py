"""Scheduled messages as the messages that they become, column by column."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakemq.model.columns import STORED, STORED_BIT
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import Row, cached_schema, change_row, value_of
from lakemq.storage.state.message_ids import MessageIds


class Scheduled(NamedTuple):
    """Scheduled messages: all columns of `STORED`, by name, and the positions they are at."""

    columns: dict[str, pa.Array]
    positions: pa.Array

    @property
    def count_rows(self) -> int:
        """How many there are."""
        return len(self.positions)


def gather(parts: list[FrameRows]) -> Scheduled:
    """The rows of several frames put together; at least one part."""
    batches = [_take(part) for part in parts]
    positions = [part.frame.meta.first_position + number for part in parts for number in part.numbers]
    columns = {
        field.name: batches[0][bit] if len(batches) == 1 else pa.concat_arrays([batch[bit] for batch in batches])
        for bit, field in enumerate(STORED)
    }
    return Scheduled(columns, pa.array(positions, pa.int64()))


def _take(part: FrameRows) -> list[pa.Array]:
    """The part's rows, all columns; a copy was born when the first was, at the latest as it was stored."""
    batch = part.frame.batch
    if part.numbers[-1] - part.numbers[0] + 1 == len(part.numbers):
        taken = batch.slice(part.numbers[0], len(part.numbers))
    else:
        taken = batch.take(pa.array(part.numbers, pa.int32()))
    names = batch.schema.names
    columns = [
        taken.column(field.name) if field.name in names else pa.nulls(len(part.numbers), field.type) for field in STORED
    ]
    born = STORED_BIT["born_time_ms"]
    columns[born] = pc.fill_null(columns[born], part.frame.meta.store_time_ms)
    return columns


def as_delivered(scheduled: Scheduled, ids: MessageIds) -> dict[str, pa.Array]:
    """The columns of the copies in their real topics."""
    columns = as_moved(scheduled, ids)
    columns["real_topic"] = columns["retry_topic"]
    columns["real_queue_id"] = pa.nulls(scheduled.count_rows, pa.int32())
    columns["retry_topic"] = pa.nulls(scheduled.count_rows, pa.string())
    columns["group"] = pa.nulls(scheduled.count_rows, pa.string())
    return columns


def row_delivered(row: Row, position: int, ids: MessageIds) -> Row:
    """`as_delivered` of the one message at a position."""
    return change_row(
        row,
        real_topic=value_of(row, "retry_topic"),
        real_queue_id=None,
        retry_topic=None,
        group=None,
        origin_message_id=value_of(row, "origin_message_id") or ids.of(position),
        cause=position,
    )


def as_moved(scheduled: Scheduled, ids: MessageIds) -> dict[str, pa.Array]:
    """The columns of the same messages, scheduled anew at the log's end."""
    columns = dict(scheduled.columns)
    columns["origin_message_id"] = pc.call_function(
        "coalesce", [columns["origin_message_id"], ids.column(scheduled.positions)]
    )
    columns["cause"] = scheduled.positions
    return columns


def to_batch(columns: dict[str, pa.Array], order: list[int] | None = None) -> pa.RecordBatch:
    """A frame's batch of the columns, without those that are null in all rows; its rows in `order`."""
    mask = 0
    kept: list[pa.Array] = []
    indices = None if order is None else pa.array(order, pa.int32())
    for bit, field in enumerate(STORED):
        column = columns[field.name]
        if field.name == "body" or column.null_count < len(column):
            mask |= 1 << bit
            kept.append(column if indices is None else column.take(indices))
    return pa.RecordBatch.from_arrays(kept, schema=cached_schema(mask))
