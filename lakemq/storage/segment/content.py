"""A frame's rows, in the form in which they are stored: many as columns, few as rows.

Whoever reads them needn't know which: either form gives what the other has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakemq.model.columns import STORED_BIT
from lakemq.storage.segment.frame import ENCODING_ARROW, ENCODING_ROWS, Meta
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.row_codec import decode_rows, encode_rows
from lakemq.storage.segment.rows import (
    PayloadCodec,
    Row,
    batch_mask,
    body_bytes_of,
    born_row,
    decode_payload,
    rows_at,
    rows_to_batch,
    value_of,
)

ROWS_MAX = 8
"""From about so many on columns are made and read faster."""

_ROW_BYTES = 512
"""About what a row's objects take of memory beside its values."""
_TEXT_BYTES = 60
"""And each of its keys and properties beside its characters."""
_WITH_TEXTS = 1 << STORED_BIT["keys"] | 1 << STORED_BIT["properties"]


class Columns:
    """Rows as one Arrow batch, whose columns are some of `STORED`."""

    encoding = ENCODING_ARROW
    __slots__ = ("_memory_bytes", "batch")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._memory_bytes = -1

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.batch.num_rows

    @property
    def mask(self) -> int:
        """The columns that are there, one bit for each of `STORED`."""
        return batch_mask(self.batch)

    @property
    def body_bytes(self) -> int:
        """The bytes of all bodies."""
        return body_bytes_of(self.batch)

    @property
    def memory_bytes(self) -> int:
        """What the rows take of memory."""
        if self._memory_bytes < 0:
            self._memory_bytes = self.batch.nbytes  # that takes Arrow longer than all else here
        return self._memory_bytes

    def values(self, name: str, row: int, count: int) -> list[Any]:
        """The values of rows `row … row + count` in a column of `STORED`; None where a row has none."""
        if name not in self.batch.schema.names:
            return [None] * count
        values = self.batch.column(name).slice(row, count).to_pylist()
        return [dict(pairs) if pairs else None for pairs in values] if name == "properties" else values

    def copies(self, numbers: list[int], store_time_ms: int) -> list[Row]:
        """Rows `numbers`, of a frame that was stored then, to make copies of: a message was born at the latest when
        it was stored."""
        return rows_at(self.batch, numbers, store_time_ms)

    def stretch(self, begin: int, end: int) -> Columns:
        """Rows `begin … end`, without holding on to the others."""
        return Columns(self.batch.take(pa.array(range(begin, end), pa.int64())))


class Rows:
    """A few rows, each as `make_row` makes it."""

    encoding = ENCODING_ROWS
    __slots__ = ("body_bytes", "mask", "memory_bytes", "rows")

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.mask = self.body_bytes = 0
        for row in rows:
            self.mask |= row[0]
            self.body_bytes += len(row[1])
        self.memory_bytes = self.body_bytes + _ROW_BYTES * len(rows)
        if self.mask & _WITH_TEXTS:
            self.memory_bytes += sum([_texts_bytes(row) for row in rows])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as columns, made anew each time: kept, they would take far more memory than the rows."""
        return rows_to_batch(self.rows)[1]

    def values(self, name: str, row: int, count: int) -> list[Any]:
        """As `Columns.values`."""
        return [value_of(each, name) for each in self.rows[row : row + count]]

    def copies(self, numbers: list[int], store_time_ms: int) -> list[Row]:
        """As `Columns.copies`."""
        return [born_row(self.rows[number], store_time_ms) for number in numbers]

    def stretch(self, begin: int, end: int) -> Rows:
        """As `Columns.stretch`."""
        return Rows(self.rows[begin:end])


def _texts_bytes(row: Row) -> int:
    keys, properties = value_of(row, "keys") or (), value_of(row, "properties") or {}
    return sum([len(text) + _TEXT_BYTES for texts in (keys, properties, properties.values()) for text in texts])


Content = Columns | Rows
NO_ROWS = Columns(pa.RecordBatch.from_arrays([], names=[]))
"""Of frames that hold no messages."""


def form(rows: Sequence[Row], body_bytes: int, codec: PayloadCodec) -> Content:
    """The rows, whose bodies have `body_bytes` together, in the form in which they are to be stored: a few as they
    are, unless they are to be compressed."""
    if len(rows) > ROWS_MAX or codec.packs(body_bytes, len(rows)):
        return Columns(rows_to_batch(rows)[1])
    return Rows(rows)


def encode_content(content: Content, body_bytes: int, codec: PayloadCodec) -> Payload:
    """The payload of rows whose bodies have `body_bytes` together: a multiple of 8 long."""
    if isinstance(content, Rows):
        return encode_rows(content.rows)
    return codec.encode(content.batch, body_bytes)


def decode_content(meta: Meta, payload: bytes | memoryview) -> Content:
    """The rows in the payload of a frame of messages, whose checksum was checked.

    Raises `FrameError` when they are not what its header says: whoever wrote it was no lakemq.
    """
    if meta.encoding == ENCODING_ROWS:
        return Rows(decode_rows(meta.columns, meta.count, payload))
    return Columns(decode_payload(meta.columns, payload))
