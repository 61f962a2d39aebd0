"""What was read, as messages of the contract: slices of frames as Arrow, JSON or NDJSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemq.model.columns import MESSAGE, STORED
from lakemq.model.message_columns import ANSWERED
from lakemq.storage.lake.cold_rows import ColdSlice, message_columns
from lakemq.storage.read.reader import Slice
from lakemq.storage.state.message_ids import MessageIds

_SMALL_ROWS = 512
END_BYTES = 64
"""Room for the stream's end."""
_ALWAYS = (
    "body",
    "position",
    "topic",
    "queue_id",
    "queue_offset",
    "store_time_ms",
    "born_time_ms",
    "reconsume_times",
)
_OPTIONAL = tuple(
    column.name for column in ANSWERED if column.name not in (*_ALWAYS, "message_id", "keys", "properties")
)


# Arrow ---------------------------------------------------------------------------------------


def to_batch(part: Slice | ColdSlice, ids: MessageIds, schema: pa.Schema = MESSAGE) -> pa.RecordBatch:
    """The slice's messages with the columns of `schema`, some of `MESSAGE`; bodies aren't copied."""
    if isinstance(part, ColdSlice):
        return message_columns(part, schema)
    return pa.RecordBatch.from_arrays([_column(field, part, ids) for field in schema], schema=schema)


def _column(field: pa.Field, part: Slice, ids: MessageIds) -> pa.Array:
    name, count = field.name, part.count
    make = _COMPUTED.get(name)
    if make is not None:
        return make(part, ids)
    batch = part.frame.batch
    if name in batch.schema.names:
        column = batch.column(name).slice(part.row, count)
        if name == "born_time_ms" and column.null_count:
            return pc.fill_null(column, part.frame.meta.store_time_ms)
        return column
    if name == "size":
        return pc.call_function("binary_length", [batch.column("body").slice(part.row, count)])
    if name == "born_time_ms":
        return pa.repeat(pa.scalar(part.frame.meta.store_time_ms, pa.int64()), count)
    if name == "reconsume_times":
        return pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.nulls(count, field.type)


def _positions(part: Slice, _: MessageIds | None = None) -> pa.Array:
    return pa.arange(part.first_position, part.first_position + part.count)


def _offsets(part: Slice, _: MessageIds) -> pa.Array:
    return pa.arange(part.first_queue_offset, part.first_queue_offset + part.count)


def _message_ids(part: Slice, ids: MessageIds) -> pa.Array:
    return ids.column(_positions(part))


_COMPUTED = {
    "message_id": _message_ids,
    "topic": lambda part, _: pa.repeat(pa.scalar(part.run.topic), part.count),
    "queue_id": lambda part, _: pa.repeat(pa.scalar(part.run.queue_id, pa.int32()), part.count),
    "queue_offset": _offsets,
    "position": _positions,
    "store_time_ms": lambda part, _: pa.repeat(pa.scalar(part.frame.meta.store_time_ms, pa.int64()), part.count),
}


def to_arrow(slices: Iterable[Slice | ColdSlice], ids: MessageIds, schema: pa.Schema = MESSAGE) -> memoryview:
    """An Arrow IPC stream of the messages. Runs of small slices are put together to one batch."""
    batches = to_batches(slices, ids, schema)
    # The size is known, so nothing is copied while the buffer grows: a quarter of the cost.
    size = schema.serialize().size + sum(map(pa.ipc.get_record_batch_size, batches)) + END_BYTES
    buffer = pa.allocate_buffer(size)
    sink = pa.FixedSizeBufferWriter(buffer)
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(buffer)[: sink.tell()]


def to_batches(slices: Iterable[Slice | ColdSlice], ids: MessageIds, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The messages as batches of `schema`, as in `to_batch`. Runs of small slices are put together to one."""
    return list(_merge_small(to_batch(part, ids, schema) for part in slices))


def _merge_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    small: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows < _SMALL_ROWS:
            small.append(batch)
            rows += batch.num_rows
        if rows >= _SMALL_ROWS or batch.num_rows >= _SMALL_ROWS:
            yield from _merged(small)
            small, rows = [], 0
        if batch.num_rows >= _SMALL_ROWS:
            yield batch
    yield from _merged(small)


def _merged(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)


# JSON ----------------------------------------------------------------------------------------


def to_dicts(part: Slice | ColdSlice, ids: MessageIds) -> list[dict[str, Any]]:
    """The slice's messages as the contract's JSON."""
    columns = _columns_of_cold(part) if isinstance(part, ColdSlice) else _columns_of_hot(part)
    count = part.count
    messages: list[dict[str, Any]] = [
        {
            "message_id": text,
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": queue_offset,
            "position": position,
            "store_time_ms": stored,
            "born_time_ms": born,
            "reconsume_times": retried,
            **_encode_body(body),
            "keys": keys or [],
            "properties": dict(properties) if properties else {},
        }
        for text, body, position, topic, queue_id, queue_offset, stored, born, retried, keys, properties in zip(
            ids.texts(columns["position"]),
            *(columns[name] for name in _ALWAYS),
            columns.get("keys") or [None] * count,
            columns.get("properties") or [None] * count,
            strict=True,
        )
    ]
    for name in _OPTIONAL:
        for message, value in zip(messages, columns.get(name, ()), strict=False):
            if value is not None:
                message[name] = value
    return messages


def _columns_of_hot(part: Slice) -> dict[str, Sequence[Any]]:
    frame, run, count = part.frame, part.run, part.count
    columns: dict[str, Any] = {
        field.name: frame.batch.column(field.name).slice(part.row, count).to_pylist()
        for field in STORED
        if field.name in frame.batch.schema.names
    }
    store_time_ms = frame.meta.store_time_ms
    return {
        **columns,
        "topic": [run.topic] * count,
        "queue_id": [run.queue_id] * count,
        "queue_offset": range(part.first_queue_offset, part.end_queue_offset),
        "position": range(part.first_position, part.first_position + count),
        "store_time_ms": [store_time_ms] * count,
        "born_time_ms": _filled(columns, "born_time_ms", store_time_ms, count),
        "reconsume_times": _filled(columns, "reconsume_times", 0, count),
    }


def _columns_of_cold(part: ColdSlice) -> dict[str, Sequence[Any]]:
    batch = message_columns(part)
    return {name: batch.column(name).to_pylist() for name in batch.schema.names if name != "message_id"}


def _filled(columns: dict[str, list[Any]], name: str, default: int, count: int) -> list[int]:
    """The column's values, with a default where there is none."""
    values = columns.get(name)
    return [default] * count if values is None else [default if value is None else value for value in values]


def _encode_body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def to_ndjson(slices: Iterable[Slice | ColdSlice], ids: MessageIds) -> bytes:
    """One message a line."""
    lines = [orjson.dumps(message) for part in slices for message in to_dicts(part, ids)]
    return b"".join([line + b"\n" for line in lines])


def to_json_list(slices: Iterable[Slice | ColdSlice], ids: MessageIds) -> list[dict[str, Any]]:
    """All messages of the slices."""
    return [message for part in slices for message in to_dicts(part, ids)]
