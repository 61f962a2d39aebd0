"""Metadata with one number changed: each is found before Arrow reads the stream."""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import NamedTuple

import pyarrow as pa
import pytest

from lakemq.gateway.decode import decode
from lakemq.gateway.decode.flatbuffer import Table, root
from lakemq.model.errors import InvalidArrow, MessageTooLarge
from tests.gateway.decode.streams import ARROW, LIMITS, bodies, write_stream

I64 = Struct("<q")


class Message(NamedTuple):
    """A message of a stream: where its metadata begins, its table and that of its header."""

    at: int
    table: Table
    header: Table
    header_at: int
    end: int


def messages(stream: bytes) -> list[Message]:
    """The messages of a well-formed stream."""
    found: list[Message] = []
    at = 0
    while at < len(stream) - 8:
        (size,) = unpack_from("<I", stream, at + 4)
        metadata = stream[at + 8 : at + 8 + size]
        table = root(metadata)
        header_at = table.target(2)
        end = at + 8 + size + table.scalar(3, I64)
        found.append(Message(at + 8, table, Table(metadata, header_at), header_at, end))
        at = end
    return found


def patched(stream: bytes, at: int, form: str, number: int) -> bytes:
    """The stream with the number at `at` exchanged."""
    new = pack(form, number)
    return stream[:at] + new + stream[at + len(new) :]


def refused(stream: bytes) -> str:
    with pytest.raises(InvalidArrow) as caught:
        decode(ARROW, {}, stream, LIMITS)
    return caught.value.detail


STREAM = write_stream(pa.table({"body": [b"x", b"yy", b"z"], "tag": ["a", None, "c"]}))
BATCH = messages(STREAM)[1]
NODES = BATCH.at + BATCH.header.vector(1, 16)[0]
BUFFERS = BATCH.at + BATCH.header.vector(2, 16)[0]


def test_the_stream_is_taken_unchanged() -> None:
    decode(ARROW, {}, patched(STREAM, NODES, "<q", 3), LIMITS)


@pytest.mark.parametrize(
    ("at", "form", "number", "says"),
    [
        (NODES, "<q", 2, "column 'body' has an impossible length"),
        (NODES + 16, "<q", 4, "column 'tag' has an impossible length"),
        (NODES + 8, "<q", 4, "column 'body' has an impossible length"),
        (NODES + 8, "<q", -1, "column 'body' has an impossible length"),
        (NODES + 8, "<q", 1, "column 'body' has too short a validity buffer"),
        (NODES - 4, "<I", 1, "another number of arrays than the schema"),
        (NODES - 4, "<I", 2**28, "a vector leaves the metadata"),
        (NODES - 4, "<I", 2**32 - 1, "a vector leaves the metadata"),
        (BUFFERS - 4, "<I", 5, "fewer buffers than its arrays need"),
        (BUFFERS - 4, "<I", 2**32 - 1, "a vector leaves the metadata"),
        (BUFFERS + 16 + 8, "<q", 15, "column 'body' is longer than its buffer"),
        (BUFFERS + 16 + 8, "<q", 0, "column 'body' is longer than its buffer"),
        (BUFFERS + 16, "<q", 2**62, "a buffer leaves its message's body"),
        (BUFFERS + 16, "<q", -8, "a buffer leaves its message's body"),
        (BUFFERS + 3 * 16 + 8, "<q", 0, "column 'tag' has too short a validity buffer"),
        (BATCH.at - 4, "<I", 2**31, "metadata is misaligned or too long"),
        (BATCH.at - 4, "<I", 12, "metadata is misaligned or too long"),
        (BATCH.at - 4, "<I", 4_194_304, "the stream is truncated"),
        (BATCH.at - 8, "<I", 5, "continuation mark"),
        (BATCH.at, "<I", 2**32 - 1, "an offset leaves the metadata"),
        (BATCH.at + BATCH.header_at, "<i", 2**31 - 1, "an offset leaves the metadata"),
        (BATCH.at + BATCH.header_at, "<i", -(2**31), "an offset leaves the metadata"),
        (BATCH.at + BATCH.table.position(0, 2), "<h", 2, "another version"),
        (BATCH.at + BATCH.table.position(1, 1), "<B", 2, "another message than record batches"),
        (BATCH.at + BATCH.table.position(3, 8), "<q", 2**40, "body is misaligned or truncated"),
        (BATCH.at + BATCH.table.position(3, 8), "<q", -8, "body is misaligned or truncated"),
        (BATCH.at + BATCH.table.position(3, 8), "<q", 7, "body is misaligned or truncated"),
        (BATCH.at + BATCH.header.position(0, 8), "<q", -3, "a negative number of rows"),
    ],
)
def test_a_changed_number_is_found(at: int, form: str, number: int, says: str) -> None:
    assert says in refused(patched(STREAM, at, form, number))


def test_more_buffers_than_arrays_need_are_refused() -> None:
    one = pa.table({"body": [b"x"], "tag": ["a"], "born_time_ms": [1]})
    stream = write_stream(one)
    batch = messages(stream)[1]
    schema = write_stream(pa.table({"body": [b"x"], "tag": ["a"], "ordering_key": pa.nulls(1)}))
    assert "more buffers" in refused(schema[: messages(schema)[0].end] + stream[batch.at - 8 :])


def test_a_stream_begins_with_its_schema() -> None:
    assert "begin with a schema" in refused(STREAM[BATCH.at - 8 :])


@pytest.mark.parametrize("number", [-1, 2**40, 2**63 - 1, 2**20])
def test_a_claimed_number_of_view_buffers_is_bounded(number: int) -> None:
    stream = write_stream(pa.table({"body": pa.array([b"x" * 20], pa.binary_view())}))
    batch = messages(stream)[1]
    counts = batch.at + batch.header.vector(4, 8)[0]
    says = "no number of its views' buffers" if number in (-1, 2**40, 2**63 - 1) else "fewer buffers"
    assert says in refused(patched(stream, counts, "<q", number))


def test_an_unknown_compression_is_refused() -> None:
    stream = write_stream(bodies(b"x" * 1_000), "zstd")
    batch = messages(stream)[1]
    compression = batch.header.table(3)
    assert compression is not None
    codec = batch.at + compression.position(0, 1)
    assert "an unknown way" in refused(patched(stream, codec, "<B", 9))


def test_a_compressed_buffer_without_its_length_is_refused() -> None:
    stream = write_stream(bodies(b"x" * 1_000), "zstd")
    batch = messages(stream)[1]
    lengths = batch.at + batch.header.vector(2, 16)[0] + 2 * 16 + 8
    assert "compressed buffer is too short" in refused(patched(stream, lengths, "<q", 7))


def test_big_endian_streams_are_refused() -> None:
    schema = messages(STREAM)[0]
    at = schema.at + schema.header_at
    vtable = at - unpack_from("<i", STREAM, at)[0]
    # The byte order is not written where it is the usual: let it be read from another field.
    (fields,) = unpack_from("<H", STREAM, vtable + 6)
    assert "big-endian" in refused(patched(STREAM, vtable + 4, "<H", fields))


def test_integers_of_odd_widths_are_refused() -> None:
    stream = write_stream(pa.table({"body": [b"x"], "queue_id": pa.array([1], pa.int32())}))
    schema = messages(stream)[0]
    kind = schema.header.tables(1, 8)[1].table(3)
    assert kind is not None
    at = schema.at + kind.position(0, 4)
    assert "integers of 24 bits" in refused(patched(stream, at, "<i", 24))


def test_a_name_that_is_no_utf8_is_refused() -> None:
    assert "no valid UTF-8" in refused(STREAM.replace(b"body", b"\xff\xff\xff\xff"))


def test_metadata_that_is_larger_than_a_schema_needs_is_read() -> None:
    table = bodies(b"x").replace_schema_metadata({"pandas": "{" * 100_000})
    decode(ARROW, {}, write_stream(table), LIMITS)


def test_more_metadata_than_a_request_may_have_is_refused() -> None:
    views = pa.array([b"x" * 20], pa.binary_view()).buffers()
    column = pa.Array.from_buffers(pa.binary_view(), 1, [*views, *views[2:] * 60_000])
    table = pa.table({"body": column})
    decode(ARROW, {}, write_stream(table), LIMITS)
    with pytest.raises(MessageTooLarge, match="bytes of metadata"):
        decode(ARROW, {}, write_stream(pa.concat_tables([table] * 5)), LIMITS)


def test_more_columns_than_there_may_be_are_refused() -> None:
    table = pa.table({f"column{at}": [1] for at in range(65)})
    assert "more than 64 entries" in refused(write_stream(table))
