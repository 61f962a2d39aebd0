"""Rows to Arrow and back: what stands in the payload of a frame of many messages.

That is one encapsulated Arrow IPC record batch message. Its schema isn't written: it
follows from the columns' mask in the frame's header (`model.columns.stored_schema`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa

from lakemq.model.columns import STORED, STORED_BIT, stored_schema
from lakemq.storage.segment.frame import FrameError

Row = tuple[Any, ...]
"""`(mask, body, tag, keys, properties, …)`: the mask of what is there, then all of `STORED`."""

_TYPES = tuple(field.type for field in STORED)
_WIDTH = len(STORED)
_BODY = STORED_BIT["body"]
_KEYS = STORED_BIT["keys"]
_BORN = STORED_BIT["born_time_ms"]
_PROPERTIES = STORED_BIT["properties"]
BODY_MASK = 1 << _BODY
PROPERTIES_MASK = 1 << _PROPERTIES

cached_schema = lru_cache(maxsize=4096)(stored_schema)


def make_row(**columns: object) -> Row:
    """A row of `STORED` columns by name; None, `[]` and `{}` count as absent."""
    values: list[object] = [None] * (_WIDTH + 1)
    mask = BODY_MASK
    for name, value in columns.items():
        if value is not None and value != [] and value != {}:
            bit = STORED_BIT[name]
            values[bit + 1] = value
            mask |= 1 << bit
    values[0] = mask
    return tuple(values)


def body_row(body: bytes, properties: dict[str, str]) -> Row:
    """A row of just these two; the hot path's shortcut for `make_row`."""
    if not properties:
        return (BODY_MASK, body, None, None, None, *_NONES)
    return (BODY_MASK | PROPERTIES_MASK, body, None, None, properties, *_NONES)


_NONES = (None,) * (_WIDTH - 4)


def change_row(row: Row, **columns: object) -> Row:
    """The row with other values in these columns; None makes one absent."""
    values = list(row)
    mask: int = row[0]
    for name, value in columns.items():
        bit = STORED_BIT[name]
        values[bit + 1] = value
        mask = mask & ~(1 << bit) if value is None else mask | 1 << bit
    values[0] = mask
    return tuple(values)


def born_row(row: Row, store_time_ms: int) -> Row:
    """The row, of a frame that was stored then, for a copy: a message was born at the latest when it was stored."""
    return row if row[_BORN + 1] is not None else change_row(row, born_time_ms=store_time_ms)


def rows_at(batch: pa.RecordBatch, numbers: list[int], store_time_ms: int) -> list[Row]:
    """Rows `numbers` of a frame that was stored then, as `make_row` makes them, for copies (`born_row`)."""
    # By columns: a scalar at a time costs ten times as much.
    batch = batch.take(pa.array(numbers, pa.int64()))
    columns: list[list[Any]] = [[None] * len(numbers)] * _WIDTH
    for name in batch.schema.names:
        columns[STORED_BIT[name]] = batch.column(name).to_pylist()
    columns[_PROPERTIES] = [dict(pairs) if pairs else None for pairs in columns[_PROPERTIES]]
    columns[_KEYS] = [keys or None for keys in columns[_KEYS]]
    columns[_BORN] = [store_time_ms if born is None else born for born in columns[_BORN]]
    return [(_mask(values), *values) for values in zip(*columns, strict=True)]


def _mask(values: tuple[Any, ...]) -> int:
    mask = BODY_MASK
    for bit, value in enumerate(values):
        if value is not None:
            mask |= 1 << bit
    return mask


def value_of(row: Row, name: str) -> Any:
    """The row's value in a column, None where it has none."""
    return row[STORED_BIT[name] + 1]


def rows_to_batch(rows: Sequence[Row]) -> tuple[int, pa.RecordBatch]:
    """`(mask, batch)` of the rows, in their order; columns that no row has are left out."""
    mask = 0
    for row in rows:
        mask |= row[0]
    columns = [_column(bit, [row[bit + 1] for row in rows]) for bit in range(_WIDTH) if mask >> bit & 1]
    return mask, pa.RecordBatch.from_arrays(columns, schema=cached_schema(mask))


def _column(bit: int, values: list[Any]) -> pa.Array:
    if bit == _BODY:
        return _binary_column(values)
    if bit == _PROPERTIES:
        return _map_column(values)
    return pa.array(values, type=_TYPES[bit])


def _binary_column(values: list[bytes]) -> pa.Array:
    # The buffers made by hand cost a fifth of pa.array(), and this is on every message's way.
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def _map_column(values: list[dict[str, str] | None]) -> pa.Array:
    first = values[0]
    if len(values) <= _UNIFORM_ROWS and first is not None and all(value is first for value in values):
        items = tuple(first.items())
        if len(items) == 1 and len(items[0][1]) <= _UNIFORM_CHARACTERS:
            return _uniform_map(items).slice(0, len(values))
    return _build_map(values)


_UNIFORM_ROWS = 256
_UNIFORM_CHARACTERS = 128


@lru_cache(maxsize=256)
def _uniform_map(items: tuple[tuple[str, str], ...]) -> pa.Array:
    # Raw posts of one content type share one dict: their column is a slice of a ready one.
    return _build_map([dict(items)] * _UNIFORM_ROWS)


def _build_map(values: list[dict[str, str] | None]) -> pa.Array:
    # pa.array() takes a list of pairs a row for a map: ten times slower than building its parts.
    offsets: list[int | None] = []
    keys: list[str] = []
    items: list[str] = []
    for value in values:
        offsets.append(None if value is None else len(keys))
        if value:
            keys.extend(value)
            items.extend(value.values())
    offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, type=pa.int32()), pa.array(keys, type=pa.string()), pa.array(items, type=pa.string())
    )


def body_bytes_of(batch: pa.RecordBatch) -> int:
    """The bytes of all bodies of a batch, which has one at least; none is null."""
    bodies = batch.column("body")
    # They stand one behind the other: Arrow's functions take five times as long to say it.
    begin, end = bodies.offset, bodies.offset + len(bodies)
    ends = memoryview(bodies.buffers()[1])[: 4 * (end + 1)].cast("i")  # whoever sent it may say that there is more
    return ends[end] - ends[begin]


def batch_mask(batch: pa.RecordBatch) -> int:
    """The mask of a batch whose columns are some of `STORED`, in that order."""
    mask = 0
    for name in batch.schema.names:
        mask |= 1 << STORED_BIT[name]
    return mask


class PayloadCodec:
    """Record batches to payloads. Large bodies are compressed, small ones are not worth it."""

    def __init__(self, compression: str, body_bytes_min: int) -> None:
        """`compression`: none, lz4 or zstd, for frames whose mean body is ≥ `body_bytes_min`."""
        self._packed = None if compression == "none" else pa.ipc.IpcWriteOptions(compression=compression)
        self._body_bytes_min = body_bytes_min

    def packs(self, body_bytes: int, rows: int) -> bool:
        """Whether it compresses rows whose bodies have `body_bytes` together."""
        return self._packed is not None and body_bytes >= self._body_bytes_min * rows

    def encode(self, batch: pa.RecordBatch, body_bytes: int) -> pa.Buffer:
        """The payload of `batch`, whose bodies have `body_bytes` together: a multiple of 8 long."""
        if not self.packs(body_bytes, batch.num_rows):
            return batch.serialize()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=self._packed) as writer:
            writer.write_batch(batch)
        messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
        messages.read_next_message()  # the schema, which the header's mask stands for
        return messages.read_next_message().serialize(alignment=8)


def decode_payload(columns: int, payload: bytes | memoryview) -> pa.RecordBatch:
    """The batch in a payload whose checksum was checked; zero-copy where it isn't compressed.

    Raises `FrameError` when it is no batch of such columns: whoever wrote it was no lakemq.
    """
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(payload), cached_schema(columns))
    except (OSError, EOFError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        # Arrow calls malformed bytes an OSError, which elsewhere is a disk's.
        raise FrameError(f"the payload is no record batch of its columns: {error}") from None
