"""A frame's rows: in whichever form they are stored, what is read is the same, and what isn't them is refused."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.columns import STORED_NAMES
from lakemq.model.message_columns import STORED, Kind
from lakemq.storage.segment.content import ROWS_MAX, Columns, Content, Rows, decode_content, encode_content, form
from lakemq.storage.segment.frame import KIND_MESSAGES, FrameError, Meta
from lakemq.storage.segment.row_codec import decode_rows, encode_rows
from lakemq.storage.segment.rows import PayloadCodec, Row, body_bytes_of, make_row, rows_to_batch

PLAIN = PayloadCodec("none", 0)
TEXT = st.text(max_size=5)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BYTES: st.binary(max_size=20),
    Kind.TEXT: TEXT,
    Kind.TEXTS: st.lists(TEXT, max_size=3),
    Kind.MAP: st.dictionaries(TEXT, TEXT, max_size=3),
    Kind.INT: INT,
    Kind.LONG: LONG,
    Kind.TIME: LONG,
}
ROW = st.fixed_dictionaries(
    {"body": VALUES[Kind.BYTES]},
    optional={each.name: VALUES[each.kind] for each in STORED if each.name != "body"},
).map(lambda columns: make_row(**columns))
ROWS = st.lists(ROW, min_size=1, max_size=5)
ONE = make_row(body=b"hello", tag="T", keys=["a"], properties={"b": "c"}, reconsume_times=3, cause=7)


def meta_of(content: Content) -> Meta:
    """The header of a frame with these rows."""
    place = KIND_MESSAGES, 0, 1_000, content.count, content.mask
    return Meta(*place, (), b"", 0, 0, 0, encoding=content.encoding)


def again(content: Content) -> Content:
    """The rows, written and read."""
    payload = bytes(encode_content(content, content.body_bytes, PLAIN))
    assert len(payload) % 8 == 0
    return decode_content(meta_of(content), payload)


@given(ROWS)
def test_both_forms_give_the_same(rows: list[Row]) -> None:
    kept, columns = again(Rows(rows)), again(Columns(rows_to_batch(rows)[1]))
    assert isinstance(kept, Rows)
    assert isinstance(columns, Columns)
    assert list(kept.rows) == rows
    assert kept.batch.equals(columns.batch)
    assert (kept.count, kept.mask, kept.body_bytes) == (columns.count, columns.mask, columns.body_bytes)
    for begin in range(len(rows)):
        assert Columns(columns.batch.slice(begin)).body_bytes == sum(len(row[1]) for row in rows[begin:])
    for name in STORED_NAMES:
        assert kept.values(name, 0, len(rows)) == columns.values(name, 0, len(rows))
        assert kept.values(name, 1, len(rows) - 1) == columns.values(name, 1, len(rows) - 1)
    last = [len(rows) - 1, 0]
    assert kept.copies(last, 5) == columns.copies(last, 5)
    assert kept.stretch(0, 1).copies([0], 5) == columns.stretch(0, 1).copies([0], 5)


def test_what_rows_take_of_memory_counts_their_texts_too() -> None:
    texts = {f"name {number}": "v" * 100 for number in range(256)}
    plain = Rows([make_row(body=b"x")])
    rich = Rows([make_row(body=b"x", keys=["k" * 1_000], properties=texts)])
    assert plain.memory_bytes < 1_000
    assert rich.memory_bytes > 256 * (100 + 60) + 1_000


def test_few_rows_stay_rows_and_many_become_columns() -> None:
    assert isinstance(form([ONE] * ROWS_MAX, 5 * ROWS_MAX, PLAIN), Rows)
    assert isinstance(form([ONE] * (ROWS_MAX + 1), 5 * (ROWS_MAX + 1), PLAIN), Columns)


def test_rows_that_are_to_be_compressed_become_columns() -> None:
    packing = PayloadCodec("lz4", 100)
    row = make_row(body=bytes(100))
    assert isinstance(form([row], 99, packing), Rows)
    columns = form([row], 100, packing)
    assert isinstance(columns, Columns)
    assert len(encode_content(columns, 100, packing)) < len(encode_content(columns, 0, packing))


@given(ROWS, st.data())
def test_what_is_cut_lengthened_or_of_other_columns_is_refused(rows: list[Row], data: st.DataObject) -> None:
    content = Rows(rows)
    payload = encode_rows(rows)
    size = data.draw(st.integers(0, len(payload) - 8))
    for wrong in (payload[:size], payload + bytes(8), payload[:-1] + b"\1" + bytes(8)):
        with pytest.raises(FrameError):
            decode_rows(content.mask, len(rows), wrong)
    for columns, count in ((content.mask ^ 2, len(rows)), (content.mask, len(rows) + 1)):
        with pytest.raises(FrameError):
            decode_rows(columns, count, payload)


@pytest.mark.parametrize(
    ("at", "number"),
    [(0, 0), (0, 2), (0, 1 << 16 | 1), (4, 6), (4, 2**32 - 1), (8, 0), (12, 3), (16, 5)],
    ids=["no columns", "no body", "unknown column", "body", "long body", "tag", "keys", "properties"],
)
def test_a_row_whose_numbers_are_wrong_is_refused(at: int, number: int) -> None:
    payload = bytearray(encode_rows([ONE]))
    struct.pack_into("<I", payload, at, number)
    with pytest.raises(FrameError):
        decode_rows(Rows([ONE]).mask, 1, bytes(payload))


def test_text_that_is_no_utf_8_is_refused() -> None:
    payload = encode_rows([make_row(body=b"", tag="T")])
    with pytest.raises(FrameError, match="malformed"):
        decode_rows(0b11, 1, payload.replace(b"T", b"\xff"))


def test_a_property_without_a_value_is_refused() -> None:
    payload = encode_rows([make_row(body=b"", keys=["a"])])
    keys, properties = 0b101, 0b1001
    wrong = payload.replace(keys.to_bytes(4, "little"), properties.to_bytes(4, "little"), 1)
    with pytest.raises(FrameError, match="no value"):
        decode_rows(properties, 1, wrong)


@pytest.mark.parametrize("row", [{"reconsume_times": 2**31}, {"cause": 2**63}, {"tag": "\ud800"}])
def test_what_a_column_cannot_hold_is_not_written(row: dict[str, Any]) -> None:
    with pytest.raises((struct.error, UnicodeEncodeError)):
        encode_rows([make_row(body=b"", **row)])


def test_bodies_are_counted_whatever_is_behind_their_offsets() -> None:
    offsets = struct.pack("<3i", 0, 3, 5) + b"?"  # a sender says how long the buffer is
    bodies = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcde")])
    assert body_bytes_of(pa.RecordBatch.from_arrays([bodies], ["body"])) == 5
