"""The log's segments on disk: writing frames to the last one, beginning the next, removing the first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.storage.disk.files import Files
from lakemq.storage.log.recovery import sealed_index
from lakemq.storage.segment.frame import (
    KIND_HOLE,
    KIND_MESSAGES,
    KIND_STATE,
    LogEpoch,
    Meta,
    Packed,
    Run,
    decode_meta,
    encode,
)
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.segment import Segment, segment_path
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.segment.side_files import drop_side_files
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import encode_state
from lakemq.storage.state.topics import Queue, TopicTable, next_offsets

logger = logging.getLogger(__name__)

Dump = Callable[[], Iterable[bytes]]
"""Makes the content of an index's file, as of when it was asked for. For any thread: it takes long where much waits."""


class FrameLeftTorn(OSError):
    """A frame was written in part and can't be cut away: nothing may follow it."""


class Begun(NamedTuple):
    """A segment that was made, and the state (`LogState.dump()`) that it begins with."""

    segment: Segment
    state: dict[str, Any]


class SegmentStore:
    """The segments of one log, ascending; the last one, `active`, is written."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self.segments: list[Segment] = []
        self.frames_written = 0
        self.bytes_written = 0
        self.on_begin: Callable[[], object] = lambda: None
        """Called when a segment has begun."""
        self._removing = False
        self._making: Segment | None = None
        self._one_makes = threading.Lock()
        self._left: Path | None = None
        """The file of a segment that could not be made, as long as its removal is not known to be on disk."""

    @property
    def active(self) -> Segment:
        """The segment that is written."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum([segment.size for segment in self.segments])

    def write_messages(
        self,
        log: LogEpoch,
        position: int,
        store_time_ms: int,
        count: int,
        columns: int,
        groups: list[tuple[Queue, int]],
        notes: bytes,
        payload: Payload | Packed,
        encoding: int,
    ) -> tuple[int, Meta]:
        """Append a frame of messages to the active segment, whole or not at all: `(queue, rows)` in the
        batch's order, from the queues' ends on. Returns its offset and its meta.

        Raises `OSError` when nothing was written, `FrameLeftTorn` when a part stays.
        """
        encoded = [(queue.next_offset, rows, queue.encoded) for queue, rows in groups]
        place = KIND_MESSAGES, position, store_time_ms, count, columns
        flushed_bytes = self.active.flushed_bytes
        meta_part, stored = encode(log, *place, encoded, notes, payload, flushed_bytes, encoding)
        offset = self._write(meta_part, stored)
        sizes = len(meta_part), len(meta_part) + len(stored)
        return offset, Meta(*place, make_runs(groups), notes, 0, *sizes, log)

    def write_hole(
        self, log: LogEpoch, position: int, store_time_ms: int, count: int, runs: Sequence[tuple[int, int, bytes]] = ()
    ) -> tuple[int, Meta]:
        """Append a hole of so many positions, with `encode`'s `runs`, otherwise like `write_messages`."""
        meta_part, nothing = encode(log, KIND_HOLE, position, store_time_ms, count, 0, runs, b"", b"")
        return self._write(meta_part, nothing), decode_meta(meta_part)

    def write_frames(self, frames: Sequence[Payload]) -> int:
        """Append whole frames, one after the other, as they are; otherwise like `write_messages`. Returns the first
        one's offset."""
        offset = self._write(b"", frames[0] if len(frames) == 1 else b"".join(frames))
        self.frames_written += len(frames) - 1
        return offset

    def _write(self, meta_part: bytes, payload: Payload) -> int:
        segment = self.active
        descriptor, offset = segment.open(), segment.size
        wanted = len(meta_part) + len(payload)
        try:
            written = self._files.append(descriptor, (meta_part, payload))
            if written < wanted:
                self._write_rest(descriptor, memoryview(meta_part + bytes(payload))[written:])
        except BaseException as error:  # also too little memory: what follows would stand behind a part
            self._cut_back(segment, offset, error)
            raise
        segment.size = offset + wanted
        self.bytes_written += wanted
        self.frames_written += 1
        return offset

    def _write_rest(self, descriptor: int, rest: memoryview) -> None:
        while rest.nbytes:
            step = self._files.append(descriptor, (rest,))
            if step <= 0:
                raise OSError("the file can't be extended")
            rest = rest[step:]

    def _cut_back(self, segment: Segment, offset: int, cause: BaseException) -> None:
        """Remove a frame that was written in part, so that the next one follows the last whole one."""
        try:
            self._files.truncate(segment.open(), offset)
        except OSError as error:
            raise FrameLeftTorn(
                f"a frame was written in part ({cause}) and can't be cut away ({error}); restart the gateway"
            ) from None

    def begin(self, base_position: int, state: LogState, store_time_ms: int) -> None:
        """Make the next segment, and go on with it. Raises `OSError`."""
        self.enter(self.make(base_position, state.identity.now, state.dump, store_time_ms))

    def enter(self, begun: Begun) -> None:
        """Go on with the segment that was made."""
        self._making = None
        self.segments.append(begun.segment)
        self.on_begin()

    def go_on_with(self, begun: Begun) -> Callable[[], None]:
        """`enter`; what is returned seals the segment before, in any thread."""
        old = self.active
        index = old.index
        assert index is not None
        old.end_position, old.last_store_time_ms = index.end_position, index.last_store_time_ms
        old.sealing = True
        self.enter(begun)
        # What is written no more needs no copy.
        return partial(self.seal, old, partial(index.dump, begun.state))

    def make(self, base_position: int, log: LogEpoch, dump: Callable[[], dict[str, Any]], store_time_ms: int) -> Begun:
        """Make the next segment, on disk: its first frame is the state of everything that the log made, as `dump`
        says it. Any thread may call it. Raises `OSError`, and then it isn't there."""
        state = dump()
        meta_part, payload = encode_state(log, state, base_position, store_time_ms)
        sizes = len(meta_part), len(meta_part) + len(payload)
        meta = Meta(KIND_STATE, base_position, store_time_ms, 0, 0, (), b"", 0, *sizes, log)
        return self.make_with(meta, state, (meta_part, payload))

    def make_with(self, meta: Meta, state: dict[str, Any], frame: Sequence[Payload]) -> Begun:
        """`make` with a state frame that there is already: its meta, what it says, and its bytes in pieces."""
        with self._one_makes:
            self._remove_left()
            return self._make_with(meta, state, frame)

    def _make_with(self, meta: Meta, state: dict[str, Any], frame: Sequence[Payload]) -> Begun:
        base_position = meta.first_position
        segment = self._making = Segment(self._files, segment_path(self._directory, base_position), base_position)
        index = segment.index = SegmentIndex(base_position)
        index.start(next_offsets(state["topics"]))
        try:
            descriptor = segment.open()
            written = self._files.append(descriptor, frame)
            if written < meta.frame_bytes:
                self._write_rest(descriptor, memoryview(b"".join(frame))[written:])
            self._files.sync(descriptor)
            self._files.sync_dir(self._directory)
        except BaseException:
            segment.close()
            self._left = segment.path
            with suppress(OSError):  # `left` tries again
                self._remove_left()
            raise
        segment.size = segment.flushed_bytes = meta.frame_bytes
        index.add(0, meta)
        return Begun(segment, state)

    def left(self) -> str | None:
        """Why nothing may be written after a segment could not be made, or None: a power cut could bring its file back,
        in the middle of what is written. It is tried again to remove it."""
        if self._left is None:
            return None
        if not self._one_makes.acquire(blocking=False):
            return "another segment is being made"
        try:
            self._remove_left()
        except OSError as error:
            return f"{self._left.name} could not be made, and can't be removed: {error}"
        finally:
            self._one_makes.release()
        return None

    def _remove_left(self) -> None:
        if self._left is not None:
            self._files.remove(self._left)
            self._files.sync_dir(self._directory)
            self._left = None

    def freeze_index(self, state: LogState) -> Dump:
        """The active segment's index as of now."""
        index = self.active.index
        assert index is not None
        dump_index, dump_state = index.freeze(), state.freeze()
        return lambda: dump_index(dump_state())

    def snapshot(self, segment: Segment, dump: Dump) -> bool:
        """Write the segment's index file; returns whether that worked. Any thread may call it."""
        try:
            self._files.replace(segment.index_path, dump(), durable=False)
        except OSError as error:
            logger.warning("can't write the index of segment %s, recovery will scan more: %s", segment.path.name, error)
            return False
        return True

    def seal(self, segment: Segment, dump: Dump) -> None:
        """Let go of what a segment that is written no more has in memory. Any thread may call it."""
        try:
            if self.snapshot(segment, dump):
                segment.index = None
                segment.close()
        finally:
            segment.sealing = False

    def set_min_offsets(self, topics: TopicTable) -> None:
        """Every queue begins where the first segment found it."""
        _begin_queues(topics, self._index_of(self.segments[0]))

    def _index_of(self, segment: Segment) -> SegmentIndex:
        return segment.index or sealed_index(self._files, segment)

    def remove_oldest(self, topics: TopicTable, why: str = "retention") -> None:
        """Remove the first segment: its queues begin later from now on. Raises `OSError`, and then it is still there,
        or its removal is not known to be on disk, which the next one sees to first: a log has no gaps."""
        if self._removing:
            self._files.sync_dir(self._directory)
        oldest, following = self.segments[:2]
        index = self._index_of(following)
        self._removing = True
        del self.segments[0]
        oldest.close()
        try:
            drop_side_files(self._files, oldest)
            self._files.remove(oldest.index_path)
            self._files.remove(oldest.path)
        except OSError:
            self.segments.insert(0, oldest)
            raise
        _begin_queues(topics, index)
        self._files.sync_dir(self._directory)
        self._removing = False
        logger.info("removed segment %s: %s", oldest.path.name, why)

    def close(self) -> None:
        """Close all descriptors."""
        for segment in self.segments:
            segment.close()
        if self._making is not None:
            self._making.close()


def _begin_queues(topics: TopicTable, first: SegmentIndex) -> None:
    """Every queue begins where the log's first segment found it."""
    for queue in topics.all_queues():
        runs = first.queues.get(queue.key)
        # A queue that the first segment doesn't know was made later, with offset 0.
        queue.min_offset = max(queue.floor, runs.start_offset if runs is not None else 0)


def make_runs(groups: list[tuple[Queue, int]]) -> tuple[Run, ...]:
    """The runs of a frame whose rows are `(queue, rows)` in this order, from the queues' ends on."""
    runs: list[Run] = []
    row = 0
    for queue, rows in groups:
        runs.append(Run(queue.topic, queue.queue_id, queue.next_offset, rows, row))
        row += rows
    return tuple(runs)
