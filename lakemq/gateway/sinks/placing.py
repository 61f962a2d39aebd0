"""Where a part's rows go, and the record in their frame that says that they are stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.decode import ArrowRows
from lakemq.gateway.placement.placement import check_rows, later_rows, place_aside, place_batch
from lakemq.gateway.sinks.staging import Part
from lakemq.model.columns import STORED_NAMES, stored_schema
from lakemq.model.errors import InvalidArrow, InvalidRequest, QueueNotFound
from lakemq.settings import Delay
from lakemq.storage.log.appends import BatchAppend
from lakemq.storage.segment.rows import batch_mask
from lakemq.storage.state.sinks import PART
from lakemq.storage.state.topics import Queue, Topic

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute


class Target(NamedTuple):
    """Where a part goes: `topic`; `scheduled`, the queue of what is delivered later; `retry`, the queue of
    the one group that gets it, if it is for one."""

    topic: Topic
    scheduled: Queue | None
    retry: Queue | None


class Needs(NamedTuple):
    """What a part needs of its topic: so many `queues`; `later`, how many of its rows are delivered later; and
    whether it has `copies`, rows that say of which message they are one."""

    queues: int
    later: int
    copies: bool


def check_part(batch: pa.RecordBatch, topic: Topic, group: str | None, now_ms: int, delays: Delay) -> Needs:
    """What a part needs; raises for what could not be stored once it is committed: `QueueNotFound`,
    `InvalidRequest`, `InvalidArrow`, `WrongMessageType`, `MessageTooLarge`."""
    names = batch.schema.names
    highest = pc.max(batch.column("queue_id")).as_py() if "queue_id" in names else None
    queues = 0 if highest is None else highest + 1
    if queues and group is not None:
        raise InvalidArrow("column 'queue_id': the retries of a group have one queue")
    check_queues(topic, queues)
    if group is None:
        check_rows(batch, topic)
    copies = "origin_message_id" in names and batch.column("origin_message_id").null_count < batch.num_rows
    later = later_rows(ArrowRows(batch), now_ms, delays)
    if later is None:
        return Needs(queues, 0, copies)
    if group is not None:
        raise InvalidRequest("what goes to one group is delivered at once: it can't have deliver_at_ms")
    if copies and pc.any(pc.and_(later, pc.is_valid(batch.column("origin_message_id")))).as_py():
        raise InvalidArrow("column 'origin_message_id': what is delivered later can't have one")
    return Needs(queues, pc.sum(later).as_py(), copies)


def check_queues(topic: Topic, queues: int) -> None:
    """Raise `QueueNotFound` unless the topic has so many."""
    if queues > len(topic.queues):
        raise QueueNotFound(f"topic {topic.name!r} has queues 0 to {len(topic.queues) - 1}, not {queues - 1}")


def place_part(batch: pa.RecordBatch, target: Target, now_ms: int, delays: Delay) -> BatchAppend:
    """A part's rows by queue. Raises `QueueNotFound` when the topic has become a smaller one."""
    rows = ArrowRows(batch)
    if target.retry is not None:
        return _for_group(batch, target.topic, target.retry)
    later = later_rows(rows, now_ms, delays) if target.scheduled is not None else None
    if later is None or target.scheduled is None:
        return place_batch(rows, target.topic)
    return place_aside(rows, target.topic, later, target.scheduled)


def _for_group(batch: pa.RecordBatch, topic: Topic, retry: Queue) -> BatchAppend:
    columns: dict[str, pa.Array] = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name == "body" or (name in STORED_NAMES and column.null_count < batch.num_rows)
    }
    columns["real_topic"] = pa.repeat(pa.scalar(topic.name, pa.string()), batch.num_rows)
    return BatchAppend.of(_in_order(columns), [(retry, batch.num_rows)])


def _in_order(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    names = [name for name in STORED_NAMES if name in columns]
    plain = pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
    return pa.RecordBatch.from_arrays(plain.columns, schema=stored_schema(batch_mask(plain)))


def done_body(part: Part, messages: int, why: str | None = None) -> bytes:
    """The record that a part is stored, or dropped: `why`."""
    record = {"op": PART, "sink": part.sink, "batch": part.batch, "part": part.name, "topic": part.topic}
    return orjson.dumps({**record, "messages": messages, "dropped": part.messages - messages, "why": why})


def with_record(placed: BatchAppend, body: bytes, queue: Queue) -> BatchAppend:
    """The placed rows, and after them a record as one more row, of `queue`."""
    schema = placed.batch.schema
    row = [
        pa.array([body], pa.binary()) if field.name == "body" else pa.nulls(1, field.type)
        for field in schema
    ]  # fmt: skip
    record = pa.RecordBatch.from_arrays(row, schema=schema)
    return BatchAppend.of(pa.concat_batches([placed.batch, record]), [*placed.groups, (queue, 1)])
