"""What was read, as messages of the contract: slices of frames as Arrow, JSON or NDJSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, cast

import orjson
import pyarrow as pa
import pyarrow.compute

from lakemq.model.columns import MESSAGE, STORED_BIT, STORED_NAMES
from lakemq.model.message_columns import ANSWERED
from lakemq.storage.lake.cold_rows import ColdSlice, message_columns
from lakemq.storage.segment.content import Rows
from lakemq.storage.segment.rows import Row, rows_to_batch
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.message_ids import MessageIds

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

_SMALL_ROWS = 512
_ROWS = -1
"""No mask: rows are put together whatever columns they have."""
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
_AT = {name: bit + 1 for name, bit in STORED_BIT.items()}
"""Where a row has each column."""
_BODY_AT, _BORN_AT, _RECONSUMED_AT, _KEYS_AT, _PROPERTIES_AT = (
    _AT[name] for name in ("body", "born_time_ms", "reconsume_times", "keys", "properties")
)
_OPTIONAL_AT = tuple((name, _AT[name]) for name in _OPTIONAL)
_OPTIONAL_MASK = sum(1 << STORED_BIT[name] for name in _OPTIONAL)


# Arrow ---------------------------------------------------------------------------------------


def to_batch(part: Slice | ColdSlice, ids: MessageIds, schema: pa.Schema = MESSAGE) -> pa.RecordBatch:
    """The slice's messages with the columns of `schema`, some of `MESSAGE`; bodies that stand in columns
    aren't copied."""
    if isinstance(part, ColdSlice):
        return message_columns(part, schema)
    return _alike([part], ids, schema)


def _alike(parts: list[Slice], ids: MessageIds, schema: pa.Schema) -> pa.RecordBatch:
    """`to_batch` of slices whose frames have the same columns, in one pass: Arrow's price is for each column of each
    batch, and a slice may be one message."""
    rows = _stored(parts)
    return pa.RecordBatch.from_arrays([_column(field, parts, rows, ids) for field in schema], schema=schema)


def _stored(parts: list[Slice]) -> pa.RecordBatch:
    contents = [part.frame.content for part in parts]
    if all(isinstance(content, Rows) for content in contents):
        found = zip(parts, cast("list[Rows]", contents), strict=True)
        return rows_to_batch(
            [row for part, content in found for row in content.rows[part.row : part.row + part.count]]
        )[1]
    batches = [_rows_of(part) for part in parts]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _rows_of(part: Slice) -> pa.RecordBatch:
    batch = part.frame.batch
    return batch if part.count == batch.num_rows else batch.slice(part.row, part.count)


def _column(field: pa.Field, parts: list[Slice], rows: pa.RecordBatch, ids: MessageIds) -> pa.Array:
    name = field.name
    make = _COMPUTED.get(name)
    if make is not None:
        return make(parts, ids)
    if name in rows.schema.names:
        column = rows.column(name)
        return _filled_column(name, column, parts) if column.null_count else column
    if name == "size":
        return pc.binary_length(rows.column("body"))
    if name == "born_time_ms":
        return _store_times(parts)
    if name == "reconsume_times":
        return pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
    return pa.nulls(rows.num_rows, field.type)


def _filled_column(name: str, column: pa.Array, parts: list[Slice]) -> pa.Array:
    """What is never null on the way out."""
    if name == "born_time_ms":
        return pc.coalesce(column, _store_times(parts))
    return pc.fill_null(column, 0) if name == "reconsume_times" else column


def _each(parts: list[Slice], values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """A column of which each part's rows have the part's one value."""
    if len(parts) == 1:
        return pa.repeat(pa.scalar(next(iter(values)), kind), parts[0].count)
    return pa.array([value for part, value in zip(parts, values, strict=True) for _ in range(part.count)], kind)


def _ascending(parts: list[Slice], firsts: Iterable[int]) -> pa.Array:
    """A column of numbers that ascend by one within each part."""
    if len(parts) == 1:
        first = next(iter(firsts))
        return pa.arange(first, first + parts[0].count)
    ranges = (range(first, first + part.count) for part, first in zip(parts, firsts, strict=True))
    return pa.array([number for each in ranges for number in each], pa.int64())


def _positions(parts: list[Slice], _: MessageIds | None = None) -> pa.Array:
    return _ascending(parts, (part.first_position for part in parts))


def _store_times(parts: list[Slice], _: MessageIds | None = None) -> pa.Array:
    return _each(parts, (part.frame.meta.store_time_ms for part in parts), pa.int64())


_COMPUTED: dict[str, Callable[[list[Slice], MessageIds], pa.Array]] = {
    "message_id": lambda parts, ids: ids.column(_positions(parts)),
    "topic": lambda parts, _: _each(parts, (part.run.topic for part in parts), pa.string()),
    "queue_id": lambda parts, _: _each(parts, (part.run.queue_id for part in parts), pa.int32()),
    "queue_offset": lambda parts, _: _ascending(parts, (part.first_queue_offset for part in parts)),
    "position": _positions,
    "store_time_ms": _store_times,
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
    return [_merged(group, ids, schema) for group in _groups(slices)]


def _groups(slices: Iterable[Slice | ColdSlice]) -> Iterator[list[Slice | ColdSlice]]:
    """Slices that follow one another: a large one, or small ones with about `_SMALL_ROWS` together."""
    group: list[Slice | ColdSlice] = []
    rows = 0
    for part in slices:
        if group and rows + part.count > _SMALL_ROWS:
            yield group
            group, rows = [], 0
        group.append(part)
        rows += part.count
    if group:
        yield group


def _merged(group: list[Slice | ColdSlice], ids: MessageIds, schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all slices, in their order: those that are alike are made together, then put where they belong."""
    cold = [part for part in group if isinstance(part, ColdSlice)]
    alike: dict[int, list[Slice]] = {}
    for part in group:
        if isinstance(part, Slice):
            content = part.frame.content
            alike.setdefault(_ROWS if isinstance(content, Rows) else content.mask, []).append(part)
    batches = [message_columns(part, schema) for part in cold]
    batches += [_alike(parts, ids, schema) for parts in alike.values()]
    if len(batches) == 1:
        return batches[0]
    made = pa.concat_batches(batches)
    return made.take(_order(group, [*cold, *chain.from_iterable(alike.values())])) if alike else made


def _order(group: Iterable[Slice | ColdSlice], made: Iterable[Slice | ColdSlice]) -> pa.Array:
    """Which rows of what was made of the slices in another order are the group's, in its order."""
    begins: dict[int, int] = {}
    row = 0
    for part in made:
        begins[id(part)] = row
        row += part.count
    return pa.array([number for part in group for number in range(begins[id(part)], begins[id(part)] + part.count)])


# JSON ----------------------------------------------------------------------------------------


def to_dicts(part: Slice | ColdSlice, ids: MessageIds) -> list[dict[str, Any]]:
    """The slice's messages as the contract's JSON."""
    if isinstance(part, Slice) and isinstance(content := part.frame.content, Rows):
        return _dicts_of_rows(part, content.rows, ids)
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
            "properties": properties or {},
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


def _dicts_of_rows(part: Slice, rows: Sequence[Row], ids: MessageIds) -> list[dict[str, Any]]:
    """`to_dicts` of few messages, mostly a frame of its own each: columns of one value would cost twice as much."""
    run, store_time_ms = part.run, part.frame.meta.store_time_ms
    offset, position = part.first_queue_offset, part.first_position
    messages: list[dict[str, Any]] = []
    for number, row in enumerate(rows[part.row : part.row + part.count]):
        born = row[_BORN_AT]
        message = {
            "message_id": ids.of(position + number),
            "topic": run.topic,
            "queue_id": run.queue_id,
            "queue_offset": offset + number,
            "position": position + number,
            "store_time_ms": store_time_ms,
            "born_time_ms": store_time_ms if born is None else born,
            "reconsume_times": row[_RECONSUMED_AT] or 0,
            **_encode_body(row[_BODY_AT]),
            "keys": row[_KEYS_AT] or [],
            "properties": row[_PROPERTIES_AT] or {},
        }
        if row[0] & _OPTIONAL_MASK:
            for name, at in _OPTIONAL_AT:
                if row[at] is not None:
                    message[name] = row[at]
        messages.append(message)
    return messages


def _columns_of_hot(part: Slice) -> dict[str, Sequence[Any]]:
    frame, run, count = part.frame, part.run, part.count
    columns: dict[str, Any] = {name: frame.content.values(name, part.row, count) for name in _names(frame.content.mask)}
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


@lru_cache(maxsize=4096)
def _names(mask: int) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(STORED_NAMES) if mask >> bit & 1)


def _columns_of_cold(part: ColdSlice) -> dict[str, Sequence[Any]]:
    batch = message_columns(part)
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != "message_id"}
    return {**columns, "properties": [dict(pairs or ()) for pairs in columns["properties"]]}


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
