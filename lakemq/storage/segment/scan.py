"""Reading a segment front to back, frame by frame, as recovery, verify and repair do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from lakemq.storage.segment.frame import (
    ALIGNMENT,
    HEADER_BYTES,
    FrameError,
    LogEpoch,
    Meta,
    NewerVersion,
    decode_meta,
    header_sizes,
    open_payload,
)
from lakemq.storage.segment.mask import MAGIC
from lakemq.storage.segment.segment import Segment

CHUNK_BYTES = 4 * 1024 * 1024


class Scanned(NamedTuple):
    """A sound frame at byte `offset`; `payload` is valid until the next one is asked for."""

    offset: int
    meta: Meta
    payload: memoryview


class Broken(Exception):
    """The bytes from `offset` on are no sound frame; `reason` says why."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class _Window:
    """A stretch of the segment in memory that moves forward."""

    def __init__(self, segment: Segment, end: int) -> None:
        self._segment = segment
        self.log = read_log_epoch(segment, end)
        self._end = end
        self._start = 0
        self._data = memoryview(b"")

    def at(self, offset: int, size: int) -> memoryview:
        """Up to `size` bytes from `offset`; fewer only where the segment ends."""
        size = min(size, self._end - offset)
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            wanted = min(max(size, CHUNK_BYTES), self._end - offset)
            self._data = memoryview(self._segment.read(offset, wanted))
            self._start, begin = offset, 0
        return self._data[begin : begin + size]


def scan(segment: Segment, start: int, end: int) -> Iterator[Scanned]:
    """The frames from byte `start` to `end`, checksums verified; raises `Broken` at the first bad one, and `LogVersion`
    at one that a newer lakemq wrote: nobody may take that for damage, and mend it away."""
    window = _Window(segment, end)
    offset = start
    while offset < end:
        try:
            scanned = _frame_at(window, offset)
        except NewerVersion as error:
            raise segment.newer(offset, error) from None
        except FrameError as error:
            raise Broken(offset, str(error)) from None
        window.log = scanned.meta.log
        yield scanned
        offset += scanned.meta.frame_bytes


def _frame_at(window: _Window, offset: int) -> Scanned:
    _, frame_bytes = header_sizes(window.at(offset, HEADER_BYTES))
    data = window.at(offset, frame_bytes)
    meta = decode_meta(data)
    payload = open_payload(meta, data[meta.meta_bytes :])
    if window.log is not None and meta.log.log_id != window.log.log_id:
        raise FrameError(f"the frame is of log {UUID(bytes=meta.log.log_id)}, not of {UUID(bytes=window.log.log_id)}")
    if window.log is not None and meta.log.epoch < window.log.epoch:
        raise FrameError(f"the frame is of epoch {meta.log.epoch}, which ended before")
    return Scanned(offset, meta, payload)


def read_log_epoch(segment: Segment, size: int) -> LogEpoch | None:
    """Whose log the segment is of, and the epoch it begins in, from its first frame; None when that
    can't be read."""
    try:
        meta_bytes, _ = header_sizes(segment.read(0, min(HEADER_BYTES, size)))
        return decode_meta(segment.read(0, min(meta_bytes, size))).log
    except FrameError:
        return None


def find_frame(segment: Segment, start: int, end: int, position_min: int = 0) -> int | None:
    """The offset of the first sound frame at or after byte `start`, or None.

    A frame that begins below `position_min` is none that is looked for.
    """
    window = _Window(segment, end)
    offset = start + -start % ALIGNMENT
    while offset < end:
        chunk = bytes(window.at(offset, CHUNK_BYTES))
        found = _first_magic(chunk)
        if found is None:
            offset += max(len(chunk) - ALIGNMENT, ALIGNMENT)
            offset += -offset % ALIGNMENT
            continue
        offset += found
        if _begins_frame(window, offset, position_min):
            return offset
        offset += ALIGNMENT
    return None


def _begins_frame(window: _Window, offset: int, position_min: int) -> bool:
    try:
        return _frame_at(window, offset).meta.first_position >= position_min
    except NewerVersion:
        return True
    except FrameError:
        return False


def _first_magic(chunk: bytes) -> int | None:
    at = chunk.find(MAGIC)
    while at >= 0 and at % ALIGNMENT:
        at = chunk.find(MAGIC, at + 1)
    return at if at >= 0 else None
