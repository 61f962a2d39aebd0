"""The frame: what `encode` writes `decode_meta` reads, and nothing else."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from lakemq.model.columns import STORED
from lakemq.model.names import DISCARD_TOPIC, MISREAD_TOPICS
from lakemq.storage.segment import frame
from lakemq.storage.segment.frame import (
    ALIGNMENT,
    HEADER_BYTES,
    KIND_HOLE,
    KIND_MESSAGES,
    KIND_STATE,
    META_BYTES_MAX,
    FrameError,
    LogEpoch,
    Meta,
    NewerVersion,
    Run,
    decode_meta,
    encode,
    encode_queue,
    header_sizes,
    is_version_1,
    open_payload,
)
from lakemq.storage.segment.mask import MAGIC
from tests.storage.harness import whole_frame

LOG = LogEpoch(b"0123456789abcdef", 3)
U16 = st.integers(0, 2**16 - 1)
NUMBER = st.integers(0, 2**62)
RUNS = st.lists(st.tuples(st.text(max_size=20), U16, NUMBER, st.integers(1, 10_000)), max_size=8)
PAYLOAD = st.binary(max_size=200).map(lambda data: data + b"\0" * (-len(data) % ALIGNMENT))

HEADER = struct.Struct("<8sIBBBBQII16sQQIIIIQII")
"""The header as docs/log_format.md gives it, apart from the code under test."""


def _encode(runs: list[tuple[str, int, int, int]], payload: bytes, notes: bytes = b"") -> bytes:
    """A whole frame of messages: the runs are `(topic, queue id, first queue offset, count)`."""
    named = [(offset, count, encode_queue(topic, queue_id)) for topic, queue_id, offset, count in runs]
    count = sum(count for *_, count in runs)
    return whole_frame(LOG, KIND_MESSAGES, 17, 1_700_000_000_000, count, 5, named, notes, payload)


def _decode(data: bytes | memoryview, at: int = 0) -> Meta:
    """The meta of a frame whose payload was checked too."""
    meta = decode_meta(data, at)
    open_payload(meta, memoryview(data)[at + meta.meta_bytes : at + meta.frame_bytes])
    return meta


def _forge(kind: int = KIND_MESSAGES, *, tail: bytes = b"", payload: bytes = b"", **fields: int) -> bytes:
    """A frame with valid checksums whose header's numbers are what the caller says."""
    size = HEADER_BYTES + len(tail)
    numbers: dict[str, int] = {
        "version": 2, "encoding": 0, "frame_bytes": size + len(payload), "meta_bytes": size, "first_position": 0,
        "store_time_ms": 0, "epoch": 1, "count": 0, "columns": 1, "runs": 0, "mask": 0, "notes_bytes": 0, **fields,
    }  # fmt: skip
    version, encoding, frame_bytes, meta_bytes, *rest = numbers.values()
    sizes = frame_bytes, meta_bytes, crc32c(payload)
    header = HEADER.pack(MAGIC, 0, version, kind, encoding, 0, *sizes, bytes(16), *rest, 0)
    meta = header[12:] + tail
    return struct.pack("<8sI", MAGIC, crc32c(meta)) + meta + payload


SMALL = _encode([("orders", 3, 41, 2), ("ü", 0, 0, 1)], b"payload!" * 3, b'[{"key":"k"}]')


@given(
    runs=RUNS,
    notes=st.binary(max_size=50),
    payload=PAYLOAD,
    kind=st.sampled_from([KIND_MESSAGES, KIND_STATE, KIND_HOLE]),
    first_position=NUMBER,
    store_time_ms=NUMBER,
    columns=st.integers(0, 2 ** len(STORED) - 1),
    before=st.binary(max_size=30),
    after=st.binary(max_size=30),
)
def test_what_is_encoded_is_decoded(
    runs: list[tuple[str, int, int, int]],
    notes: bytes,
    payload: bytes,
    kind: int,
    first_position: int,
    store_time_ms: int,
    columns: int,
    before: bytes,
    after: bytes,
) -> None:
    named = [(offset, count, encode_queue(topic, queue_id)) for topic, queue_id, offset, count in runs]
    count = sum(count for *_, count in runs)
    meta_part, stored = encode(LOG, kind, first_position, store_time_ms, count, columns, named, notes, payload)
    expected: list[Run] = []
    row = 0
    for topic, queue_id, offset, rows in runs:
        expected.append(Run(topic, queue_id, offset, rows, row))
        row += rows
    data = before + meta_part + bytes(stored) + after
    meta = _decode(data, len(before))
    assert meta == Meta(
        kind, first_position, store_time_ms, count, columns, tuple(expected), notes,
        crc32c(bytes(stored)), len(meta_part), len(meta_part) + len(payload), LOG, meta.mask,
    )  # fmt: skip
    assert header_sizes(data, len(before)) == (meta.meta_bytes, meta.frame_bytes)
    assert meta.meta_bytes % ALIGNMENT == meta.frame_bytes % ALIGNMENT == 0


def test_header_is_laid_out_as_documented() -> None:
    payload = b"12345678"
    data = _encode([("t", 7, 40, 2)], payload, b"notes")
    assert data[:8] == b"LMQF\xfe\xff\xf6\x9d"
    assert HEADER.unpack_from(data)[2:] == (
        2, KIND_MESSAGES, 0, 0, 136, 128, crc32c(payload), *LOG[:1], 17, 1_700_000_000_000, 3, 2, 5, 1, 0, 5, 0,
    )  # fmt: skip
    assert data[96:] == struct.pack("<QIHH", 40, 2, 7, 1) + b"t" + bytes(7) + b"notes" + bytes(3) + payload
    assert struct.unpack_from("<I", data, 8) == (crc32c(data[12:128]),)


def test_every_flipped_bit_is_detected() -> None:
    for bit in range(len(SMALL) * 8):
        flipped = bytearray(SMALL)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            _decode(bytes(flipped))


def test_every_truncation_is_detected() -> None:
    for size in range(len(SMALL)):
        with pytest.raises(FrameError):
            _decode(SMALL[:size])


@given(st.data())
def test_any_change_of_a_frame_is_detected(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SMALL) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=len(SMALL) - at))
    changed = SMALL[:at] + patch + SMALL[at + len(patch) :]
    if changed != SMALL:
        with pytest.raises(FrameError):
            _decode(changed)


@given(st.binary(max_size=300))
@example(b"")
@example(MAGIC)
@example(b"\0" * 96)
@example(MAGIC + b"\xff" * 100)
def test_random_bytes_are_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        _decode(data)


@given(
    tail=st.binary(max_size=64).map(lambda data: data + b"\0" * (-len(data) % ALIGNMENT)),
    kind=st.integers(0, 255),
    runs=st.integers(0, 5),
    notes_bytes=st.integers(0, 80),
    count=st.integers(0, 2**32 - 1),
    numbers=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
)
def test_bytes_with_valid_checksums_never_raise_anything_else(
    tail: bytes, kind: int, runs: int, notes_bytes: int, count: int, numbers: tuple[int, int]
) -> None:
    data = _forge(
        kind,
        tail=tail,
        runs=runs,
        notes_bytes=notes_bytes,
        count=count,
        first_position=numbers[0],
        store_time_ms=numbers[1],
    )
    try:
        meta = _decode(data)
    except FrameError:
        return
    assert len(meta.runs) == runs
    assert len(meta.notes) == notes_bytes
    assert meta.first_position + meta.count < 2**63


def _run(topic: bytes, topic_bytes: int | None = None, *, count: int = 1, first_offset: int = 0) -> bytes:
    run = struct.pack("<QIHH", first_offset, count, 0, len(topic) if topic_bytes is None else topic_bytes) + topic
    return run + b"\0" * (-len(run) % ALIGNMENT)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_forge(tail=_run(b"\xff"), runs=1, count=1), "malformed"),
        (_forge(runs=1, count=1), "malformed"),
        (_forge(tail=_run(b"t"), runs=2, count=2), "malformed"),
        (_forge(tail=_run(b"t", 100), runs=1, count=1), "lengths do not add up"),
        (_forge(tail=_run(b"t"), runs=1, count=1, notes_bytes=8), "lengths do not add up"),
        (_forge(tail=_run(b"t")), "lengths do not add up"),
        (_forge(notes_bytes=2**32 - 1), "lengths do not add up"),
        (_forge(tail=_run(b"t"), runs=1, count=2), "runs do not add up"),
        (_forge(tail=_run(b"t"), runs=1, count=1, first_position=2**63 - 1), "numbers are impossible"),
        (_forge(tail=_run(b"t"), runs=1, count=1, store_time_ms=2**63), "numbers are impossible"),
        (_forge(tail=_run(b"t", first_offset=2**64 - 1), runs=1, count=1), "numbers are impossible"),
        (_forge(meta_bytes=88), "lengths are impossible"),
        (_forge(meta_bytes=104), "lengths are impossible"),
        (_forge(frame_bytes=97), "lengths are impossible"),
        (_forge(meta_bytes=META_BYTES_MAX + 8, frame_bytes=META_BYTES_MAX + 8), "lengths are impossible"),
        (_forge(meta_bytes=104, frame_bytes=104), "runs are cut off"),
        (_forge(frame_bytes=160), "payload is cut off"),
        (SMALL[:95], "header is cut off"),
        (b"X" + SMALL[1:], "no frame begins here"),
        (SMALL[:-1] + b"?", "payload's checksum"),
    ],
)
def test_reason_names_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        _decode(data)


def test_frame_of_another_version_is_named() -> None:
    data = bytearray(SMALL)
    data[12] = 3
    with pytest.raises(FrameError, match="checksum"):  # torn, or damaged: of another version only by its checksum
        decode_meta(bytes(data))
    data[8:12] = crc32c(bytes(data[12 : decode_meta(SMALL).meta_bytes])).to_bytes(4, "little")
    with pytest.raises(NewerVersion, match="version 3, this lakemq reads version 2"):
        decode_meta(bytes(data))
    with pytest.raises(NewerVersion, match="encoding 2, this lakemq reads those up to 1"):
        decode_meta(_forge(encoding=2))


@pytest.mark.parametrize(
    ("topic", "queue_id", "is_marked"),
    [(DISCARD_TOPIC, 0, True), (DISCARD_TOPIC, 1, False), ("no" + DISCARD_TOPIC, 0, False)],
)
def test_frame_whose_records_those_before_would_misread_is_refused_by_them(
    monkeypatch: pytest.MonkeyPatch, topic: str, queue_id: int, is_marked: bool
) -> None:
    data = _encode([("t", 0, 0, 2), (topic, queue_id, 5, 1)], bytes(8))
    assert (data[75] == 0x80) is is_marked
    assert decode_meta(data).columns == 5
    monkeypatch.setattr(frame, "_MISREAD", 0)  # a lakemq of before
    if is_marked:
        with pytest.raises(NewerVersion, match="columns 0x80000005, of which this lakemq doesn't know all"):
            decode_meta(data)
    else:
        assert decode_meta(data).columns == 5


def test_frame_is_marked_by_whichever_topics_the_names_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knew the discards' topic by name, so the next such record would have been a change of its code."""
    monkeypatch.setattr(frame, "_MISREAD_IN", tuple(encode_queue(topic, 0) for topic in (*MISREAD_TOPICS, "leases")))
    for topic, is_marked in ((DISCARD_TOPIC, True), ("leases", True), ("t", False)):
        assert (_encode([(topic, 0, 5, 3)], bytes(8))[75] == 0x80) is is_marked


def test_hole_in_place_of_such_records_says_nothing_to_misread() -> None:
    runs = [(5, 1, encode_queue(DISCARD_TOPIC, 0))]
    data = whole_frame(LOG, KIND_HOLE, 17, 0, 1, 0, runs, b"", b"")
    assert data[72:76] == bytes(4)


def test_frame_that_could_not_be_read_again_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "META_BYTES_MAX", 160)
    encode(LOG, KIND_MESSAGES, 0, 0, 0, 0, [], b"n" * 64, b"")
    with pytest.raises(ValueError, match="at most 160 bytes, not 168"):
        encode(LOG, KIND_MESSAGES, 0, 0, 0, 0, [], b"n" * 65, b"")


def test_first_version_is_told_by_its_checksum() -> None:
    header = struct.pack("<4sIIBBHQQIIIIIIQ", b"LMQF", 0, 0, 1, KIND_STATE, 0, 0, 0, 0, 0, 0, 64, 0, 0, 64)
    header = struct.pack("<4sI", b"LMQF", crc32c(header[8:])) + header[8:]
    assert is_version_1(header)
    assert not is_version_1(header[:63])
    assert not is_version_1(header[:40] + b"x" + header[41:])
    assert not is_version_1(SMALL)


# What no frame holds inside --------------------------------------------------------------------

WORD = st.sampled_from([MAGIC, *[bytes([MAGIC[0] ^ mask]) + MAGIC[1:] for mask in range(1, 9)], bytes(8), SMALL])
"""A frame, its beginning, and what masks make a beginning of."""


@given(st.lists(WORD, max_size=30).map(b"".join), st.integers(0, 7))
@example(MAGIC, 0)
@example(b"".join(bytes([MAGIC[0] ^ mask]) + MAGIC[1:] for mask in range(9)), 0)
@example(MAGIC * 5_000, 0)
@example(SMALL * 100, 0)
def test_nothing_in_a_frame_looks_like_a_frames_beginning(words: bytes, shift: int) -> None:
    payload = bytes(shift) + words + bytes(-(shift + len(words)) % ALIGNMENT)
    data = whole_frame(LOG, KIND_STATE, 0, 0, 0, 0, [], b"", payload)
    assert [at for at in range(0, len(data), ALIGNMENT) if data[at : at + 8] == MAGIC] == [0]
    meta = decode_meta(data)
    assert open_payload(meta, data[meta.meta_bytes :]) == payload
    assert (meta.mask == 0) == all(payload[at : at + 8] != MAGIC for at in range(0, len(payload), ALIGNMENT))


def test_no_header_holds_a_beginning_whatever_its_numbers_are() -> None:
    number = int.from_bytes(MAGIC, "little")
    assert number > frame.NUMBER_MAX  # no position, offset, time or length
    assert number % 2**32 > frame.EPOCH_MAX
    assert number % 2**32 >= 1 << len(STORED)  # no set of columns
    assert number % 2**32 % ALIGNMENT  # no length of a header, runs and notes
    assert min(MAGIC[4:]) > 0  # no notes' length and the zeros after it, no version and the zero after it
    assert number >> 48 > 1024  # no topic's length, at the end of a run's numbers
    assert MAGIC[6] >> 4 != 4  # no first half of a UUID of random bits
    assert MAGIC[0] >> 6 != 0b10  # nor a second one
    with pytest.raises(UnicodeDecodeError):  # no topic's name, notes or state
        MAGIC.decode()


def test_frame_says_how_much_was_on_disk_as_it_was_written() -> None:
    for flushed in (0, 8, 4096, 8 * (2**32 - 1)):
        data = whole_frame(LOG, KIND_MESSAGES, 0, 0, 0, 0, [], b"", b"", flushed)
        assert decode_meta(data).flushed_bytes == flushed
        assert HEADER.unpack_from(data)[-1] == flushed // ALIGNMENT
    assert decode_meta(SMALL).flushed_bytes == 0
    assert HEADER.unpack_from(SMALL)[5] == 0  # the byte that nothing uses yet


def test_header_that_is_cut_off_by_the_end_of_what_was_read_is_none() -> None:
    for at in (0, 8, 200):
        with pytest.raises(FrameError, match=r"^the header is cut off$"):
            header_sizes(bytes(at) + SMALL[: HEADER_BYTES - 1], at)


def test_offsets_of_a_queue_end_where_numbers_do() -> None:
    last = 2**63 - 1
    assert _decode(_encode([("t", 0, last - 2, 2)], b"")).runs[0].first_queue_offset == last - 2
    with pytest.raises(FrameError, match=r"^the header's numbers are impossible$"):
        _decode(_encode([("t", 0, last - 1, 2)], b""))


def test_payload_that_was_packed_before_is_stored_as_it_was_packed() -> None:
    payload = MAGIC + b"payload!" * 3
    packed = frame.pack_payload(payload)
    assert packed.mask
    other = packed._replace(mask=packed.mask, crc=packed.crc ^ 1)
    meta = decode_meta(whole_frame(LOG, KIND_MESSAGES, 0, 0, 0, 0, [], b"", other))
    assert (meta.mask, meta.payload_crc) == (other.mask, other.crc)


def test_too_little_for_a_header_of_the_first_version_is_none() -> None:
    assert not is_version_1(b"")
    assert not is_version_1(b"LMQF")
