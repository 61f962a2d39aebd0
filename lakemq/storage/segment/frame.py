"""The frame: the log's unit of writing, reading and recovery. docs/log_format.md is its grammar.

Writer and reader share this module. A frame is a header of 96 bytes, its runs, its notes, padding
to 8 bytes, and the payload. Two CRC32Cs cover every byte: the payload's stands in the header, and
the header's covers header, runs, notes and padding.

Frames begin at multiples of 8 with `MAGIC`, and nothing else in them at a multiple of 8 is `MAGIC`:
what a crash leaves of one is never taken for another one, whatever the messages hold.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from lakemq.model.columns import STORED
from lakemq.model.names import MISREAD_TOPICS
from lakemq.storage.segment.mask import MAGIC, Payload, apply_mask, choose_mask

VERSION = 2
VERSION_AT = 12
"""The byte of a header that says it, in all versions."""
KIND_MESSAGES = 1
KIND_STATE = 2
KIND_HOLE = 3
ENCODING_ARROW = 0
"""How the rows stand in a payload: an Arrow record batch (`rows.py`)."""
ENCODING_ROWS = 1
"""Rows one after the other (`row_codec.py`)."""
ALIGNMENT = 8

_HEADER = struct.Struct("<8sIBBBBQII16sQQIIIIQII")
HEADER_BYTES = _HEADER.size
_SIZES = struct.Struct("<8sI4xQI")
_RUN = struct.Struct("<QIHH")
_RUN_NUMBERS = struct.Struct("<QI")
_QUEUE = struct.Struct("<HH")
_CRC = struct.Struct("<8sI")
_VERSION_1 = struct.Struct("<4sI4xB31xI")
META_BYTES_MAX = 64 * 1024 * 1024
NUMBER_MAX = 2**63 - 1
EPOCH_MAX = 2**30 - 1
COUNT_MAX = 2**32 - 1
_COLUMNS = len(STORED)
_MISREAD = 1 << 31
"""Stands among a frame's columns, as one that those before don't know: they refuse the frame, whose records they would
take for messages that say nothing."""
_FLUSHED_MAX = 2**32 - 1


class FrameError(Exception):
    """The bytes are no whole, sound frame. Says why; where is known to the caller."""


class NewerVersion(FrameError):
    """The frame was written by a lakemq that this one can't read."""


class LogEpoch(NamedTuple):
    """Whose frame it is: the log's UUID, and which stretch of the log's life it was written in. A new
    epoch begins where messages may have been lost that somebody was told of."""

    log_id: bytes
    epoch: int


class Packed(NamedTuple):
    """A payload as it is stored, with what it takes long to find out about a large one."""

    stored: Payload
    mask: int
    crc: int


NO_LOG = LogEpoch(bytes(16), 0)


class Run(NamedTuple):
    """Rows `row … row + count` of a frame are these offsets of a queue, ascending by one."""

    topic: str
    queue_id: int
    first_queue_offset: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    row: int


class Meta(NamedTuple):
    """A frame without its payload. Row i of the frame has position `first_position + i`."""

    kind: int
    first_position: int
    store_time_ms: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    columns: int
    runs: tuple[Run, ...]
    notes: bytes
    payload_crc: int
    meta_bytes: int
    frame_bytes: int
    log: LogEpoch = NO_LOG
    mask: int = 0
    flushed_bytes: int = 0
    encoding: int = ENCODING_ARROW


def encode_queue(topic: str, queue_id: int) -> bytes:
    """The part of a run that names its queue, for `encode`; the same for all runs of the queue."""
    name = topic.encode()
    return _QUEUE.pack(queue_id, len(name)) + name + bytes(-len(name) % ALIGNMENT)


_MISREAD_IN = tuple(encode_queue(topic, 0) for topic in MISREAD_TOPICS)
"""The queues whose records are such ones."""


def _is_misread(runs: Sequence[tuple[int, int, bytes]], tail: bytes) -> bool:
    """Whether one of the runs is of such a queue; `tail` holds them all, and so says quickly of most frames that none
    is."""
    return any(each in tail and any(queue == each for _, _, queue in runs) for each in _MISREAD_IN)


def pack_payload(payload: Payload) -> Packed:
    """What `encode` would do with the payload, beforehand. Any thread may call it."""
    mask = choose_mask(payload)
    stored = apply_mask(payload, mask) if mask else payload
    return Packed(stored, mask, crc32c(stored))


def encode(
    log: LogEpoch,
    kind: int,
    first_position: int,
    store_time_ms: int,
    count: int,
    columns: int,
    runs: Sequence[tuple[int, int, bytes]],
    notes: bytes,
    payload: Payload | Packed,
    flushed_bytes: int = 0,
    encoding: int = ENCODING_ARROW,
) -> tuple[bytes, Payload]:
    """A frame: everything that stands before its payload, and the payload as it is stored.

    `runs` are `(first queue offset, count, encode_queue(…))` in the order of the rows; `notes` are
    ASCII. `flushed_bytes`, a multiple of 8: so much of the segment is on disk. The payload's length
    must be a multiple of 8. Raises `ValueError` rather than make a frame that `decode_meta` would
    refuse for its size.
    """
    pack = _RUN_NUMBERS.pack
    tail = b"".join([pack(offset, rows) + queue for offset, rows, queue in runs]) + notes
    if kind == KIND_MESSAGES and _is_misread(runs, tail):
        columns |= _MISREAD
    tail += b"\0" * (-len(tail) % ALIGNMENT)
    meta_bytes = HEADER_BYTES + len(tail)
    if meta_bytes > META_BYTES_MAX:
        raise ValueError(f"a frame's header, runs and notes have at most {META_BYTES_MAX} bytes, not {meta_bytes}")
    payload, mask, crc = payload if isinstance(payload, Packed) else pack_payload(payload)
    payload_bytes = len(payload)
    assert payload_bytes % ALIGNMENT == 0
    meta = _HEADER.pack(
        MAGIC,
        0,
        VERSION,
        kind,
        encoding,
        0,
        meta_bytes + payload_bytes,
        meta_bytes,
        crc,
        log[0],
        first_position,
        store_time_ms,
        log[1],
        count,
        columns,
        len(runs),
        mask,
        len(notes),
        min(flushed_bytes // ALIGNMENT, _FLUSHED_MAX),
    )
    meta = meta[12:] + tail
    return _CRC.pack(MAGIC, crc32c(meta)) + meta, payload


def is_version_1(data: bytes) -> bool:
    """Whether `data` begins with a state frame of the first version of the format, whole."""
    if len(data) < _VERSION_1.size:
        return False
    magic, crc, version, meta_bytes = _VERSION_1.unpack_from(data)
    return magic == b"LMQF" and version == 1 and crc32c(data[8:meta_bytes]) == crc


def header_sizes(data: bytes | memoryview, at: int = 0) -> tuple[int, int]:
    """`(meta_bytes, frame_bytes)` as the header at `at` claims them, unverified but plausible.

    Raises `FrameError` when there is no header.
    """
    if len(data) - at < HEADER_BYTES:
        raise FrameError("the header is cut off")
    magic, _, frame_bytes, meta_bytes = _SIZES.unpack_from(data, at)
    if magic != MAGIC:
        raise FrameError("no frame begins here")
    if not HEADER_BYTES <= meta_bytes <= min(META_BYTES_MAX, frame_bytes) or ((meta_bytes | frame_bytes) % ALIGNMENT):
        raise FrameError("the header's lengths are impossible")
    return meta_bytes, frame_bytes


def decode_meta(data: bytes | memoryview, at: int = 0) -> Meta:
    """The frame's meta at `at` of `data`, verified by its CRC; the payload isn't looked at.

    Raises `FrameError` when the bytes are cut off, or are not what `encode` wrote.
    """
    meta_bytes, frame_bytes = header_sizes(data, at)
    end = at + meta_bytes
    if len(data) < end:
        raise FrameError("the header's runs are cut off")
    (
        _,
        crc,
        version,
        kind,
        encoding,
        _,
        _,
        _,
        payload_crc,
        log_id,
        first_position,
        store_time_ms,
        epoch,
        count,
        columns,
        run_count,
        mask,
        notes_bytes,
        flushed,
    ) = _HEADER.unpack_from(data, at)
    if crc32c(memoryview(data)[at + 12 : end]) != crc:
        raise FrameError("the header's checksum does not match")
    if version != VERSION:  # only now: of a header that a crash tore, the version is anything
        raise NewerVersion(f"the frame has version {version}, this lakemq reads version {VERSION}")
    if encoding > ENCODING_ROWS:
        raise NewerVersion(
            f"the frame's payload has encoding {encoding}, this lakemq reads those up to {ENCODING_ROWS}"
        )
    columns &= ~_MISREAD
    if kind > KIND_HOLE or columns >> _COLUMNS:
        raise NewerVersion(
            f"the frame is of kind {kind} with columns {columns:#x}, of which this lakemq doesn't know all"
        )
    try:
        runs, cursor = _decode_runs(memoryview(data)[:end], at + HEADER_BYTES, run_count)
    except (struct.error, UnicodeDecodeError):
        raise FrameError("the header's runs are malformed") from None
    if cursor + notes_bytes + -(cursor + notes_bytes - at) % ALIGNMENT != end:
        raise FrameError("the header's lengths do not add up")
    if kind == KIND_MESSAGES and sum(run.count for run in runs) != count:
        raise FrameError("the header's runs do not add up")
    if max(first_position + count, store_time_ms, *(run.first_queue_offset + run.count for run in runs)) > NUMBER_MAX:
        raise FrameError("the header's numbers are impossible")
    notes = bytes(data[cursor : cursor + notes_bytes])
    log = LogEpoch(log_id, epoch)
    place = kind, first_position, store_time_ms, count, columns
    numbers = payload_crc, meta_bytes, frame_bytes
    return Meta(*place, tuple(runs), notes, *numbers, log, mask, flushed * ALIGNMENT, encoding)


def _decode_runs(data: memoryview, cursor: int, run_count: int) -> tuple[list[Run], int]:
    """The runs that begin at `cursor`, and where they end."""
    runs: list[Run] = []
    row = 0
    for _ in range(run_count):
        first_offset, rows, queue_id, topic_bytes = _RUN.unpack_from(data, cursor)
        cursor += _RUN.size
        runs.append(Run(str(data[cursor : cursor + topic_bytes], "utf-8"), queue_id, first_offset, rows, row))
        cursor += topic_bytes + -topic_bytes % ALIGNMENT
        row += rows
    return runs, cursor


def open_payload(meta: Meta, stored: Payload) -> memoryview:
    """The payload, from the bytes that are stored of it; raises `FrameError` when `stored` are not those
    that `meta` was written with. Without a mask it is `stored` itself."""
    if len(stored) != meta.frame_bytes - meta.meta_bytes:
        raise FrameError("the payload is cut off")
    if crc32c(stored) != meta.payload_crc:
        raise FrameError("the payload's checksum does not match")
    return apply_mask(stored, meta.mask)
