"""One file of the log and its index file, named by the position they begin with."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lakemq.model.errors import Busy, LogDamaged, LogVersion, PositionGone
from lakemq.storage.disk.files import Files
from lakemq.storage.segment.content import NO_ROWS, Content, decode_content
from lakemq.storage.segment.frame import KIND_MESSAGES, FrameError, Meta, NewerVersion, decode_meta, open_payload
from lakemq.storage.segment.segment_index import Extent, SegmentIndex, load

_GENERATION = 2**64


class Frame(NamedTuple):
    """A frame that was read and verified, or has just been written."""

    meta: Meta
    content: Content

    @property
    def batch(self) -> pa.RecordBatch:
        """Its rows as columns."""
        return self.content.batch


def segment_path(directory: Path, base_position: int) -> Path:
    """The segment's file: its name is its first position in 20 digits."""
    return directory / f"{base_position:020d}.log"


class Segment:
    """One segment. Reads are by `pread`: safe from any thread. No two that this process has seen have
    the same `identity`.

    `index` None: sealed, and its index isn't in memory now; `load_index` brings it.
    """

    def __init__(self, files: Files, path: Path, base_position: int) -> None:
        self._files = files
        self.path = path
        self.index_path = path.with_suffix(".idx")
        self.base_position = base_position
        self.end_position = base_position
        self.size = 0
        self.flushed_bytes = 0
        """So much of it this process has brought to disk."""
        self.last_store_time_ms = 0
        self.index: SegmentIndex | None = None
        self.identity = base_position
        self.sealing = False
        """Whether its index is being written for good."""
        self.descriptor: int | None = None
        self._closing = threading.Lock()

    def rewritten(self, size: int, last_store_time_ms: int) -> Segment:
        """This segment, sealed, with other frames in its file: `identity` tells the two apart."""
        other = Segment(self._files, self.path, self.base_position)
        other.end_position, other.size = self.end_position, size
        other.last_store_time_ms = last_store_time_ms
        other.identity = self.identity + _GENERATION
        return other

    def extent(self) -> Extent:
        """What the segment holds, as an index of all of it says."""
        return Extent(self.base_position, self.end_position, self.size, self.last_store_time_ms)

    def open(self) -> int:
        """The segment's descriptor, for writing too. Only the segment that is written stays open."""
        if self.descriptor is None:
            self.descriptor = self._files.open_append(self.path)
        return self.descriptor

    def open_read(self) -> int:
        """`open` for reads alone: never makes a file, as where retention has just removed it. Raises
        `FileNotFoundError`."""
        if self.descriptor is None:
            self.descriptor = self._files.open_read(self.path)
        return self.descriptor

    def close(self) -> None:
        """Close the descriptor, if there is one; waits for a read that uses it."""
        with self._closing:
            if self.descriptor is not None:
                descriptor, self.descriptor = self.descriptor, None
                self._files.close(descriptor)

    def load_index(self) -> SegmentIndex:
        """The sealed segment's index; raises `BadIndex` or `OSError`."""
        if self.index is None:
            self.index = load(self._files.read_whole(self.index_path))
        return self.index

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; raises `OSError`, `FileNotFoundError` once retention took it."""
        with self._closing:
            if self.descriptor is not None:
                return self._files.read(self.descriptor, size, offset)
        descriptor = self._files.open_read(self.path)
        try:
            return self._files.read(descriptor, size, offset)
        finally:
            self._files.close(descriptor)

    def read_at_once(self, offset: int, size: int) -> bytearray | bytes | None:
        """`read` of the segment that is written, where nothing has to be waited for; else None. On the log's loop."""
        return None if self.descriptor is None else self._files.read_at_once(self.descriptor, size, offset)

    def damaged(self, offset: int, why: object) -> LogDamaged:
        """The error that says where the log is damaged."""
        return LogDamaged(f"segment {self.path.name} is damaged at offset {offset}: {why}")

    def newer(self, offset: int, why: object) -> LogVersion:
        """The error that says where a newer lakemq has written."""
        return LogVersion(
            f"segment {self.path.name} was written by a newer lakemq, from offset {offset} on: {why}. Start that one,"
            " or a later one; this lakemq changes nothing there"
        )

    def parse(self, data: bytes | memoryview, offset: int, at: int = 0) -> Frame:
        """The frame at `at` of `data`, which is at byte `offset` here; raises `LogDamaged`, and `LogVersion`."""
        try:
            return open_frame(data, at)
        except NewerVersion as error:
            raise self.newer(offset, error) from None
        except FrameError as error:
            raise self.damaged(offset, error) from None


def open_frame(data: bytes | memoryview, at: int = 0) -> Frame:
    """The frame at `at` of `data`; raises `FrameError` when it isn't whole and sound."""
    meta = decode_meta(data, at)
    payload = open_payload(meta, memoryview(data)[at + meta.meta_bytes : at + meta.frame_bytes])
    return Frame(meta, decode_content(meta, payload) if meta.kind == KIND_MESSAGES else NO_ROWS)


def read_bytes(segment: Segment, offset: int, size: int) -> memoryview:
    """Bytes of a segment; raises `PositionGone` when it has left, and `Busy` when it can't be read now: of what
    was read nothing is known then, so that is no damage."""
    try:
        return memoryview(segment.read(offset, size))
    except FileNotFoundError:
        raise PositionGone(f"segment {segment.path.name} has left the log") from None
    except OSError as error:
        raise Busy(f"segment {segment.path.name} can't be read now: {error}") from None
