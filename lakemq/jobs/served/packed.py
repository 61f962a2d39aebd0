"""Rows on their way from Spark's tasks: as streams of Arrow, of each partition so many at most. So neither the JVM nor
this process ever holds more than an answer may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

PACKED = "data BINARY, full BOOLEAN"
_SCHEMA = pa.schema([("data", pa.binary()), ("full", pa.bool_())])

_Pack = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def pack(rows_max: int, bytes_max: int) -> _Pack:
    """For `mapInArrow`: a row for each batch, until there are so many rows or bytes; `full`: there are more bytes."""

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows, size = 0, 0
        for batch in batches:
            part = batch.slice(0, rows_max - rows)
            is_full = size + part.nbytes > bytes_max
            part = first_within(part, bytes_max - size, lambda each: each.nbytes) if is_full else part
            size += part.nbytes
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_batch(part)
            yield pa.RecordBatch.from_arrays(
                [pa.array([sink.getvalue().to_pybytes()], pa.binary()), pa.array([is_full])], schema=_SCHEMA
            )
            rows += part.num_rows
            if is_full or rows >= rows_max:
                return

    return packed


def first_within(batch: pa.RecordBatch, bytes_max: int, size_of: Callable[[pa.RecordBatch], int]) -> pa.RecordBatch:
    """As many of its first rows as have so many bytes together."""
    if size_of(batch) <= bytes_max:
        return batch
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(batch.slice(0, middle)) <= bytes_max else (low, middle - 1)
    return batch.slice(0, low)


def unpack(data: bytes | bytearray) -> list[pa.RecordBatch]:
    """The batches of such a row."""
    return list(pa.ipc.open_stream(pa.py_buffer(bytes(data))))
