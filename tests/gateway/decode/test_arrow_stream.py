"""Streams that lie: each claims a number that its bytes don't bear out."""

from __future__ import annotations

from struct import pack
from typing import Any

import pyarrow as pa
import pytest

from lakemq.gateway.decode import Limits, decode
from lakemq.model.errors import InvalidArrow, MessageTooLarge
from tests.gateway.decode.streams import ARROW, LIMITS, bodies, replaced, with_column, write_stream

ROWS = 1_237
"""A number that stands nowhere in a stream but where rows are counted."""
MAGIC = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}
HUGE = (2**31 - 1, 2**31, 2**40, 2**63 - 1, -1, -(2**63))


def refused(stream: bytes, limits: Limits = LIMITS) -> str:
    with pytest.raises((InvalidArrow, MessageTooLarge)) as caught:
        decode(ARROW, {}, stream, limits)
    return caught.value.detail


def i64(number: int) -> bytes:
    return pack("<q", number)


@pytest.mark.parametrize("claim", HUGE)
def test_a_claimed_number_of_rows_is_held_against_the_bytes(claim: int) -> None:
    # Once as the batch's rows, once as the length of its one array.
    stream = write_stream(bodies(*[b""] * ROWS))
    refused(replaced(stream, i64(ROWS), i64(claim), count=2))


@pytest.mark.parametrize("claim", HUGE)
def test_rows_that_take_no_bytes_are_bounded(claim: int) -> None:
    table = pa.table({"body": pa.array([b""] * ROWS), "tag": pa.nulls(ROWS)})
    refused(replaced(write_stream(table), i64(ROWS), i64(claim), count=4))


@pytest.mark.parametrize("claim", HUGE)
def test_a_buffer_never_leaves_its_body(claim: int) -> None:
    stream = write_stream(bodies(b"x" * 4_321))
    assert "leaves" in refused(replaced(stream, i64(4_321), i64(claim)))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", HUGE)
def test_a_compressed_buffer_never_inflates_beyond_the_limit(compression: str, claim: int) -> None:
    stream = write_stream(bodies(b"x" * 54_321), compression)
    magic = MAGIC[compression]
    refused(replaced(stream, i64(54_321) + magic, i64(claim) + magic))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", [0, 54_320, 54_322, 1_000_000])
def test_a_compressed_buffer_of_another_size_is_refused(compression: str, claim: int) -> None:
    stream = write_stream(bodies(b"x" * 54_321), compression)
    magic = MAGIC[compression]
    refused(replaced(stream, i64(54_321) + magic, i64(claim) + magic))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_is_refused_before_it_is_inflated(compression: str) -> None:
    bomb = write_stream(bodies(*[bytes(1_000_000)] * 100), compression)
    assert len(bomb) < 1_000_000
    assert "when inflated" in refused(bomb)
    # Nothing can inflate it now, so that what is said of its size was known before.
    assert "when inflated" in refused(bomb.replace(MAGIC[compression], bytes(4)))
    fitting = write_stream(bodies(bytes(1_000_000)), compression)
    assert "when inflated" not in refused(fitting.replace(MAGIC[compression], bytes(4)))


def test_batches_inflate_to_the_limit_all_together() -> None:
    table = bodies(*[bytes(100_000)] * 9)
    stream = write_stream(table, "zstd", rows=1)
    limits = Limits(message_bytes_max=100_000, request_bytes_max=800_000)
    assert "when inflated" in refused(stream, limits)


def test_views_that_show_the_same_bytes_again_count_each_time() -> None:
    body = bytes(100_000)
    views = pa.array([body], pa.binary_view())
    again = pa.Array.from_buffers(
        pa.binary_view(),
        1_000,
        [None, pa.py_buffer(views.buffers()[1].to_pybytes()[:16] * 1_000), views.buffers()[2]],
    )
    stream = write_stream(pa.table({"body": again}))
    assert len(stream) < 200_000
    assert "bytes of text" in refused(stream)


@pytest.mark.parametrize("view", [pack("<iiii", -(2**31), 0, 0, 0), pack("<iiii", 99, 0, 7, 7)])
@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_of_null_slots_are_not_followed(kind: pa.DataType, view: bytes) -> None:
    # Arrow's own validation passes them over, and its cast crashed the process.
    column = pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x02"), pa.py_buffer(view + pack("<i12s", 1, b"v"))])
    column.validate(full=True)
    name = "tag" if pa.types.is_string_view(kind) else "body"
    other = {"body": [b"x", b"y"]} if name == "tag" else {}
    assert "View" in refused(write_stream(pa.table({name: column, **other})))


@pytest.mark.parametrize("column", ["keys", "properties"])
def test_offsets_that_leave_their_buffer_are_refused(column: str) -> None:
    values: dict[str, list[Any]] = {"keys": [["k"] * 3], "properties": [[("n", "v")]]}
    stream = with_column(column, values[column])
    offsets = pack("<ii", 0, len(values[column][0])) + b"\0"
    at = stream.rindex(offsets)
    broken = stream[: at + 4] + pack("<i", 1_000_000) + stream[at + 8 :]
    assert f"column {column!r}: " in refused(broken)


def test_offsets_that_go_back_are_refused() -> None:
    stream = write_stream(bodies(b"a", b"bb", b"ccc"))
    offsets = pack("<iiii", 0, 1, 3, 6)
    refused(replaced(stream, offsets, pack("<iiii", 0, 3, 1, 6)))
    refused(replaced(stream, offsets, pack("<iiii", -4, 1, 3, 6)))
    refused(replaced(stream, offsets, pack("<iiii", 0, 1, 3, 7_000_000)))


def test_every_truncation_is_refused() -> None:
    stream = with_column("keys", [["a"], ["b", "c"]])[:-8]
    for length in range(len(stream)):
        refused(stream[:length])


def test_bytes_after_the_end_are_refused() -> None:
    stream = write_stream(bodies(b"x"))
    assert "goes on after its end" in refused(stream + b"\0")
    assert "goes on after its end" in refused(stream + stream)


def test_a_second_schema_is_refused() -> None:
    stream = write_stream(bodies(b"x"))
    assert "another message" in refused(stream[:-8] + stream)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"ARROW1\0\0",
        b"\xff" * 64,
        b"\xff\xff\xff\xff\0\0\0\0",
        b"\xff\xff\xff\xff\xf8\xff\xff\xff" + b"\0" * 64,
        b"\xff\xff\xff\xff\x40\0\0\0" + b"\xff" * 64,
        b"\xff\xff\xff\xff\x40\0\0\0" + b"\0" * 64,
        b"\xff\xff\xff\xff\x08\0\0\0" + pack("<Ii", 4, 4),
        b'{"messages": []}',
    ],
)
def test_what_is_no_stream_is_refused(body: bytes) -> None:
    refused(body)


def test_a_schema_alone_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bodies(b"x").schema):
        pass
    assert "no rows" in refused(sink.getvalue().to_pybytes())


def test_streams_of_old_metadata_are_read() -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, bodies(b"x").schema, options=options) as writer:
        writer.write_table(bodies(b"x"))
    decode(ARROW, {}, sink.getvalue().to_pybytes(), LIMITS)


def test_legacy_framing_without_the_mark_is_refused() -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.ipc.new_stream(sink, bodies(b"x").schema, options=options) as writer:
        writer.write_table(bodies(b"x"))
    assert "continuation mark" in refused(sink.getvalue().to_pybytes())
