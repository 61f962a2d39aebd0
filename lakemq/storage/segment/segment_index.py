"""Where things are in one segment: its frames by position and time, and each queue's runs.

The index of the segment that is being written lives in growing arrays; a snapshot of it is a file
beside the segment, written whole or not at all. A sealed segment's index is that file, read when
it is first asked for. The log can always make it again: it is derived, and never trusted further
than its checksums.
"""

from __future__ import annotations

import json
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from crc32c import crc32c

from lakemq.storage.segment.frame import KIND_HOLE, KIND_MESSAGES, Meta
from lakemq.storage.segment.large_json import to_json

_PREAMBLE = struct.Struct("<4sIIIIIQQQQ")
_EXTENT = struct.Struct("<QQQQ")
PREAMBLE_BYTES = _PREAMBLE.size
_MAGIC = b"LMQI"
_VERSION = 1

QueueKey = tuple[str, int]
PIECE = 64 * 1024
"""So many numbers are copied and written at a time of an index."""
NEW_QUEUES_MAX = 100_000
"""Queues that are entered in one index beside those that were there as its segment began."""


class BadIndex(Exception):
    """The bytes are no sound index."""


class Extent(NamedTuple):
    """What an index covers: positions `base ≤ p < end`, in the segment's first `covered_bytes`."""

    base_position: int
    end_position: int
    covered_bytes: int
    last_store_time_ms: int


class QueueRuns:
    """The runs of one queue in one segment, ascending: run i begins at `first_offsets[i]` and is in
    the frame at byte `frame_offsets[i]`. `start_offset` is the queue's next offset at the
    segment's beginning, `next_offset` that after its last run."""

    __slots__ = ("first_offsets", "frame_offsets", "next_offset", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        self.first_offsets = array("q")
        self.frame_offsets = array("q")

    def find(self, queue_offset: int) -> int:
        """The number of the run that holds `queue_offset`, or of the first one after it."""
        return max(bisect_right(self.first_offsets, queue_offset) - 1, 0)


class Note(NamedTuple):
    """That a request with an idempotency key was stored: its result is note `number` of the frame
    that holds `position`."""

    store_time_ms: int
    position: int
    number: int
    key: str
    payload: str


def notes_of(meta: Meta) -> list[Note]:
    """The notes of a frame, without the requests' results."""
    return [
        Note(meta.store_time_ms, meta.first_position, number, note["key"], note["payload"])
        for number, note in enumerate(json.loads(meta.notes))
    ]


class SegmentIndex:
    """The index of one segment, covering its first `covered_bytes` bytes.

    Frames are numbered in the log's order: frame i is at byte `offsets[i]`, begins with position
    `positions[i]` and was stored at `times[i]`, none of which ever goes back.
    """

    def __init__(self, base_position: int) -> None:
        self.base_position = base_position
        self.end_position = base_position
        self.covered_bytes = 0
        self.last_store_time_ms = 0
        self.positions = array("q")
        self.offsets = array("q")
        self.times = array("q")
        self.queues: dict[QueueKey, QueueRuns] = {}
        self.notes: list[Note] = []
        self.state: dict[str, Any] = {}
        self._queues_max = NEW_QUEUES_MAX

    @property
    def memory_bytes(self) -> int:
        """What its arrays take of memory."""
        runs = sum([len(runs.first_offsets) for runs in self.queues.values()])
        return 8 * (3 * len(self.positions) + 2 * runs)

    def start(self, next_offsets: dict[QueueKey, int]) -> None:
        """Set where the queues stood at the segment's beginning."""
        for key, offset in next_offsets.items():
            self.queues[key] = QueueRuns(offset)
        self.restart()

    def restart(self) -> None:
        """The queues that are there now are none of those that make it crowded."""
        self._queues_max = len(self.queues) + NEW_QUEUES_MAX

    @property
    def is_crowded(self) -> bool:
        """Whether it is time for another segment, whatever this one's size: topics that come and go leave their queues
        in the index, which is in memory."""
        return len(self.queues) > self._queues_max

    def extent(self) -> Extent:
        """What the index covers now."""
        return Extent(self.base_position, self.end_position, self.covered_bytes, self.last_store_time_ms)

    def add(self, offset: int, meta: Meta) -> None:
        """Enter the frame at byte `offset`, the next one of the segment."""
        self.positions.append(meta.first_position)
        self.offsets.append(offset)
        # Nothing was stored when a hole was made: whoever looks for that time wants what comes after it.
        self.times.append(self.last_store_time_ms if meta.kind == KIND_HOLE else meta.store_time_ms)
        # The runs of a hole are lost rows: nothing to find there.
        for run in meta.runs if meta.kind == KIND_MESSAGES else ():
            self.add_run((run.topic, run.queue_id), run.first_queue_offset, run.count, offset)
        self.end_position = meta.first_position + meta.count
        self.last_store_time_ms = meta.store_time_ms
        self.covered_bytes = offset + meta.frame_bytes
        if meta.notes:
            self.notes += notes_of(meta)

    def add_run(self, key: QueueKey, first_queue_offset: int, count: int, frame_offset: int) -> None:
        """Enter a run of the frame at byte `frame_offset`."""
        runs = self.queues.get(key)
        if runs is None:
            runs = self.queues[key] = QueueRuns(first_queue_offset)
        runs.first_offsets.append(first_queue_offset)
        runs.frame_offsets.append(frame_offset)
        runs.next_offset = first_queue_offset + count

    def frame_at(self, position: int) -> int:
        """The number of the frame that holds `position`. A state frame holds none: of frames that
        begin with the same position, it's the last."""
        return bisect_right(self.positions, position) - 1

    def frame_number(self, offset: int) -> int:
        """The number of the frame at byte `offset`."""
        return bisect_left(self.offsets, offset)

    def frame_bytes(self, number: int) -> int:
        """The length of a frame, in bytes."""
        return self.begin_of(number + 1) - self.offsets[number]

    def begin_of(self, number: int) -> int:
        """The byte where frame `number` begins, or where it will. For any thread, while frames are added."""
        covered = self.covered_bytes  # first: what is added meanwhile comes after it
        return self.offsets[number] if number < len(self.offsets) else covered

    def position_at_time(self, timestamp_ms: int) -> int:
        """The first position stored at or after that time; the segment's end if none was."""
        number = bisect_left(self.times, timestamp_ms)
        return self.positions[number] if number < len(self.positions) else self.end_position

    def dump(self, state: dict[str, Any]) -> Iterator[bytes]:
        """The index file's content, in pieces, with `state` (`LogState.dump()`) as of `covered_bytes`."""
        return self.freeze()(state)

    def freeze(self) -> Callable[[dict[str, Any]], Iterator[bytes]]:
        """What makes the `dump` of the index as it is now, in any thread, while frames are added. Of the arrays there
        is never more than a piece in memory a second time."""
        extent, frames, notes = self.extent(), len(self.positions), self.notes.copy()
        queues = [(key, runs, runs.next_offset) for key, runs in self.queues.items()]
        return lambda state: self._dump(extent, frames, queues, notes, state)

    def _dump(
        self,
        extent: Extent,
        frames: int,
        queues: list[tuple[QueueKey, QueueRuns, int]],
        notes: list[Note],
        state: dict[str, Any],
    ) -> Iterator[bytes]:
        directory: list[list[object]] = []
        arrays = [(numbers, frames) for numbers in (self.positions, self.offsets, self.times)]
        for (topic, queue_id), runs, next_offset in queues:
            count = bisect_left(runs.frame_offsets, extent.covered_bytes)
            directory.append([topic, queue_id, runs.start_offset, next_offset, count])
            arrays += ((runs.first_offsets, count), (runs.frame_offsets, count))
        head = to_json({"frames": frames, "queues": directory, "notes": notes, "state": state})
        size = sum(map(len, head))
        head.append(b" " * (-(size + PREAMBLE_BYTES) % 8))
        packed = _EXTENT.pack(*extent)
        head_crc, body_crc = crc32c(packed), 0
        for part in head:
            head_crc = crc32c(part, head_crc)
        for piece in _pieces(arrays):
            body_crc = crc32c(piece, body_crc)
        sizes = size + len(head[-1]), head_crc, body_crc, crc32c(packed)
        yield _PREAMBLE.pack(_MAGIC, _VERSION, *sizes, *extent)
        yield from head
        yield from _pieces(arrays)


def _pieces(arrays: list[tuple[array[int], int]]) -> Iterator[bytes]:
    """The first so many numbers of each, which nobody changes, while others are added behind them. Nothing may hold
    on to an array meanwhile, which could not grow then: hence copies, small ones."""
    some: list[bytes] = []
    size = 0
    for numbers, count in arrays:
        for begin in range(0, count, PIECE):
            some.append(numbers[begin : min(begin + PIECE, count)].tobytes())
            size += len(some[-1])
            if size >= PIECE * numbers.itemsize:
                yield b"".join(some)
                some.clear()
                size = 0
    yield b"".join(some)


def load_extent(data: bytes) -> Extent:
    """What the index beginning with `data` (`PREAMBLE_BYTES` or more) covers, without its arrays.

    Raises `BadIndex`.
    """
    if len(data) < PREAMBLE_BYTES:
        raise BadIndex("the preamble is cut off")
    magic, version, _, _, _, extent_crc, *extent = _PREAMBLE.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or crc32c(_EXTENT.pack(*extent)) != extent_crc:
        raise BadIndex("this is no index of this version")
    return Extent(*extent)


def load(data: bytes) -> SegmentIndex:
    """The index that `dump` wrote; raises `BadIndex` when `data` is anything else."""
    extent = load_extent(data)
    _, _, head_bytes, head_crc, body_crc, *_ = _PREAMBLE.unpack_from(data)
    at = PREAMBLE_BYTES + head_bytes
    head, body = memoryview(data)[PREAMBLE_BYTES:at], memoryview(data)[at:]
    if crc32c(head, crc32c(_EXTENT.pack(*extent))) != head_crc or crc32c(body) != body_crc:
        raise BadIndex("a checksum does not match")
    fields = json.loads(bytes(head))
    index = SegmentIndex(extent.base_position)
    index.end_position = extent.end_position
    index.covered_bytes = extent.covered_bytes
    index.last_store_time_ms = extent.last_store_time_ms
    index.notes = [Note(*note) for note in fields["notes"]]
    state = fields["state"]
    index.state = state if isinstance(state, dict) else {"topics": state}  # as version 0.1 wrote it
    cut = _Cutter(body)
    frames = fields["frames"]
    index.positions, index.offsets, index.times = cut.take(frames), cut.take(frames), cut.take(frames)
    for topic, queue_id, start_offset, next_offset, count in fields["queues"]:
        runs = index.queues[topic, queue_id] = QueueRuns(start_offset)
        runs.next_offset = next_offset
        runs.first_offsets, runs.frame_offsets = cut.take(count), cut.take(count)
    index.restart()
    return index


class _Cutter:
    """Takes arrays of 64-bit integers off the front of a buffer."""

    def __init__(self, body: memoryview) -> None:
        self._body = body

    def take(self, count: int) -> array[int]:
        numbers = array("q")
        numbers.frombytes(self._body[: count * 8])
        self._body = self._body[count * 8 :]
        return numbers
