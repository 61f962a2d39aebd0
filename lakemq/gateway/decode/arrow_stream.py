"""The messages of an Arrow IPC stream, measured before Arrow reads them.

Arrow's reader believes some numbers of a stream. Here each of them is held against the bytes that
are there: lengths of arrays against their buffers, buffers against the message's body, and the
sizes that compressed buffers claim against the limit. Nothing is allocated by a claimed number.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, unpack_from
from typing import NamedTuple

from lakemq.gateway.decode.arrow_schema import I16, U8, Kind, Layout, Node, read_layout
from lakemq.gateway.decode.flatbuffer import Malformed, Table, read, root
from lakemq.gateway.decode.limits import BATCHES_MAX, METADATA_BYTES_MAX, ROWS_MAX
from lakemq.model.errors import MessageTooLarge

_PREFIX = Struct("<II")
_I64 = Struct("<q")
_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _RECORD_BATCH = 1, 3
_V4, _V5 = 3, 4
_RAW = -1
"""The uncompressed length of a buffer that is kept as it is in a compressed record batch."""


class Measured(NamedTuple):
    """What a stream holds: how many record batches, rows in all, values in all arrays, and bytes when inflated."""

    layout: Layout
    batches: int
    rows: int
    values: int
    inflated_bytes: int


class _Message(NamedTuple):
    kind: int
    header: Table
    header_at: int
    metadata: bytes
    body_at: int
    body_bytes: int
    next_at: int


def measure_stream(stream: bytes, inflated_bytes_max: int) -> Measured:
    """Check the stream's structure; raises `Malformed` or `MessageTooLarge`.

    A stream is a schema and any number of record batches; the mark at its end may be missing,
    and nothing may follow it.
    """
    first = _message_at(stream, 0)
    if first is None or first.kind != _SCHEMA:
        raise Malformed("the stream doesn't begin with a schema")
    if first.body_bytes:
        raise Malformed("the schema has a body")
    layout = read_layout(first.metadata, first.header_at)
    batches = rows = values = inflated = metadata = 0
    at = first.next_at
    while (message := _message_at(stream, at)) is not None:
        if message.kind != _RECORD_BATCH:
            raise Malformed("the stream has another message than record batches")
        batches += 1
        metadata += len(message.metadata)
        _check_most("record batches", batches, BATCHES_MAX)
        _check_most("bytes of metadata", metadata, METADATA_BYTES_MAX)
        batch = _Batch(stream, message, layout)
        rows += batch.rows
        inflated += sum(batch.sizes)
        _check_most("messages", rows, ROWS_MAX)
        _check_most("bytes when inflated", inflated, inflated_bytes_max)
        batch.check_arrays()
        values += batch.values
        at = message.next_at
    if not rows:
        raise Malformed("the stream has no rows")
    return Measured(layout, batches, rows, values, inflated)


def _check_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise MessageTooLarge(f"more than {most} {what} in one request")


def _message_at(stream: bytes, at: int) -> _Message | None:
    """The encapsulated message at `at`; None at the end of the stream."""
    if at and at == len(stream):
        return None
    if at + 8 > len(stream):
        raise Malformed("the stream is truncated")
    continuation, size = _PREFIX.unpack_from(stream, at)
    if continuation != _CONTINUATION:
        raise Malformed("a message doesn't begin with the continuation mark")
    if at and not size:
        if at + 8 != len(stream):
            raise Malformed("the stream goes on after its end")
        return None
    return _parse_message(stream, at + 8, size)


def _parse_message(stream: bytes, metadata_at: int, size: int) -> _Message:
    body_at = metadata_at + size
    if size % 8 or size > METADATA_BYTES_MAX:
        raise Malformed("a message's metadata is misaligned or too long")
    if body_at > len(stream):
        raise Malformed("the stream is truncated")
    metadata = stream[metadata_at:body_at]
    message = root(metadata)
    if message.scalar(0, I16) not in (_V4, _V5):
        raise Malformed("the metadata has another version than 4 or 5")
    header_at = message.target(2)
    body_bytes = message.scalar(3, _I64)
    if body_bytes < 0 or body_bytes % 8 or body_at + body_bytes > len(stream):
        raise Malformed("a message's body is misaligned or truncated")
    return _Message(
        kind=message.scalar(1, U8),
        header=Table(metadata, header_at),
        header_at=header_at,
        metadata=metadata,
        body_at=body_at,
        body_bytes=body_bytes,
        next_at=body_at + body_bytes,
    )


class _Batch:
    """One record batch: the lengths of its arrays, and the inflated sizes of their buffers."""

    __slots__ = ("_nodes", "_numbers", "_views", "rows", "sizes")

    def __init__(self, stream: bytes, message: _Message, layout: Layout) -> None:
        header = message.header
        self.rows = header.scalar(0, _I64)
        if self.rows < 0:
            raise Malformed("a record batch has a negative number of rows")
        self._nodes = layout.nodes
        self._numbers = _pairs(message.metadata, header, 1)
        self._views = _counts(message.metadata, header, 4)
        if len(self._numbers) != 2 * len(self._nodes):
            raise Malformed("a record batch has another number of arrays than the schema")
        buffers = _pairs(message.metadata, header, 2)
        _check_bounds(buffers, message.body_bytes)
        self.sizes = _inflated_sizes(stream, message, buffers)

    @property
    def values(self) -> int:
        """Of all arrays together."""
        return sum(self._numbers[::2])

    def check_arrays(self) -> None:
        """Hold each array's length against its buffers, and nested nulls against none."""
        at = 0
        views = iter(self._views)
        for index, node in enumerate(self._nodes):
            length, nulls = self._numbers[2 * index], self._numbers[2 * index + 1]
            if not 0 <= nulls <= length or (not node.nested and length != self.rows):
                raise Malformed(f"column {node.column!r} has an impossible length")
            count = _buffer_count(node, views)
            sizes = self.sizes[at : at + count]
            if len(sizes) < count:
                raise Malformed("a record batch has fewer buffers than its arrays need")
            _check_array(node, length, nulls, sizes)
            at += count
        if at != len(self.sizes) or next(views, None) is not None:
            raise Malformed("a record batch has more buffers than its arrays need")


def _buffer_count(node: Node, views: Iterator[int]) -> int:
    if node.kind is Kind.VIEW:
        count = next(views, -1)
        if not 0 <= count <= METADATA_BYTES_MAX:
            raise Malformed("a record batch tells no number of its views' buffers")
        return 2 + count
    return _BUFFERS[node.kind]


_BUFFERS = {Kind.NULL: 0, Kind.STRUCT: 1, Kind.INTEGER: 2, Kind.LIST: 2, Kind.TEXT: 3}


def _check_array(node: Node, length: int, nulls: int, sizes: tuple[int, ...]) -> None:
    if node.kind is Kind.NULL:
        # Nulls take no bytes: nothing but the rows bounds how many are claimed.
        if node.nested and length:
            raise Malformed(f"column {node.column!r} has a list of nulls")
        return
    if nulls and sizes[0] * 8 < length:
        raise Malformed(f"column {node.column!r} has too short a validity buffer")
    if node.kind is Kind.STRUCT:
        return
    entries = length if node.kind in (Kind.INTEGER, Kind.VIEW) or not length else length + 1
    if sizes[1] < entries * node.width:
        raise Malformed(f"column {node.column!r} is longer than its buffer")


def _pairs(metadata: bytes, header: Table, slot: int) -> tuple[int, ...]:
    """The numbers of a vector of structs of two int64, one after the other."""
    start, count = header.vector(slot, 16)
    return _numbers(metadata, start, 2 * count)


def _counts(metadata: bytes, header: Table, slot: int) -> tuple[int, ...]:
    start, count = header.vector(slot, 8)
    return _numbers(metadata, start, count)


def _numbers(metadata: bytes, start: int, count: int) -> tuple[int, ...]:
    return unpack_from(f"<{count}q", metadata, start) if count else ()


def _check_bounds(buffers: tuple[int, ...], body_bytes: int) -> None:
    for offset, length in zip(buffers[::2], buffers[1::2], strict=True):
        if offset < 0 or length < 0 or offset + length > body_bytes:
            raise Malformed("a buffer leaves its message's body")


def _inflated_sizes(stream: bytes, message: _Message, buffers: tuple[int, ...]) -> tuple[int, ...]:
    compression = message.header.table(3)
    if compression is None:
        return buffers[1::2]
    if compression.scalar(0, U8) > 1 or compression.scalar(1, U8) != 0:
        raise Malformed("a record batch is compressed in an unknown way")
    return tuple(
        _inflated_size(stream, message.body_at + offset, length)
        for offset, length in zip(buffers[::2], buffers[1::2], strict=True)
    )


def _inflated_size(stream: bytes, at: int, length: int) -> int:
    if not length:
        return 0
    if length < 8:
        raise Malformed("a compressed buffer is too short")
    size = read(_I64, stream, at)
    if size < _RAW:
        raise Malformed("a compressed buffer has a negative length")
    return length - 8 if size == _RAW else size
