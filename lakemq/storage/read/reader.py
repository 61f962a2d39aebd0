"""Reading messages: by queue and offset, by position, by time.

What is read is slices of frames: no message is touched. A read is planned first, on the loop, from
the indexes; carrying it out needs only segments' bytes, so it may run in a thread when the frames
aren't in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from lakemq.model.errors import LogDamaged, MessageNotFound, PositionGone
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.fallback import Fallback
from lakemq.storage.read.frame_counts import frames_of
from lakemq.storage.read.look_up import (
    FRAMES_MAX,
    Extent,
    QueuePlan,
    Sought,
    offset_at_position,
    plan_queue,
    position_at_time,
    segment_of_position,
)
from lakemq.storage.read.sealed_indexes import SealedIndexes
from lakemq.storage.segment.cache import FrameKey
from lakemq.storage.segment.frame import KIND_MESSAGES
from lakemq.storage.segment.segment import Frame, Segment, read_bytes
from lakemq.storage.segment.segment_index import QueueRuns, SegmentIndex
from lakemq.storage.segment.slice import Slice, slices_of
from lakemq.storage.state.topics import Queue

READ_BYTES = 1024 * 1024
UNBOUNDED = 2**63


class PositionPlan(NamedTuple):
    """A read by position: its frames, and the positions `begin ≤ p < end` that they cover."""

    extents: list[Extent]
    begin: int
    end: int


class Reader:
    """Reads a `CommitLog`. Plans on the loop; `read` and `read_positions` in any thread. `fallback`: what a
    damaged frame held is taken from there."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.fallback: Fallback | None = None
        self._indexes = SealedIndexes(log)

    def segments(self) -> list[Segment]:
        """The log's segments, ascending."""
        return self._log.segments

    @property
    def next_position(self) -> int:
        """The log's end."""
        return self._log.next_position

    def known_index(self, segment: Segment) -> SegmentIndex | None:
        """The segment's index, if it is in memory. For any thread."""
        return self._indexes.known(segment)

    def tell(self, segment: Segment, why: LogDamaged) -> None:
        """Say that the segment is damaged, to who may mend it. For any thread."""
        if self.fallback is not None:
            self.fallback.note(segment, why)

    def forget(self, segment: Segment) -> None:
        """Another file took the segment's place."""
        self._indexes.forget(segment)
        self._log.cache.drop(segment.identity)

    def read_index(self, segment: Segment) -> SegmentIndex:
        """The segment's index, read if it isn't in memory. For any thread. Raises `PositionGone`, `LogDamaged`,
        `Busy`."""
        return self.known_index(segment) or self._indexes.read(segment)

    def enter(self, segment: Segment, index: SegmentIndex) -> None:
        """Keep an index that was read, as if it had been asked for."""
        self._indexes.keep(segment, index)

    # Planning --------------------------------------------------------------------------------

    def index(self, segment: Segment) -> SegmentIndex:
        """The segment's index; a sealed one's is read when needed, the last few are kept."""
        return self._indexes.get(segment)

    def plan(self, queue: Queue, offset: int, messages_max: int, bytes_max: int) -> QueuePlan:
        """What to read for up to `messages_max` messages of `queue` from `offset`, which must be
        readable; frames of about `bytes_max` bytes together, at least one."""
        return plan_queue(self._log.segments, self.index, Sought(queue, offset, messages_max, bytes_max))

    def plan_positions(self, begin: int, end: int, topics: set[str] | None, bytes_max: int) -> PositionPlan:
        """What to read for the messages of `topics` (None: all) with `begin ≤ position < end`, in
        frames of about `bytes_max` bytes; the plan's `end` says how far it goes."""
        extents: list[Extent] = []
        size = 0
        at = begin
        number = self.segment_of_position(begin)
        while number < len(self._log.segments) and at < end and size < bytes_max:
            segment = self._log.segments[number]
            index = self.index(segment)
            extent, at, step = plan_frames_in(
                segment, index, topics, at, min(end, index.end_position), bytes_max - size
            )
            if extent.frames:
                extents.append(extent)
            if at < index.end_position:
                break
            size += step
            number += 1
        return PositionPlan(extents, begin, min(at, end))

    def segment_of_position(self, position: int) -> int:
        """The number of the segment that holds, or held, the position."""
        return segment_of_position(self._log.segments, position)

    def cached(self, plan: QueuePlan | PositionPlan) -> bool:
        """Whether carrying out the plan touches no file."""
        return all(
            self._in_memory((extent.segment.identity, offset)) is not None
            for extent in plan.extents
            for offset, _ in extent.frames
        )

    def _in_memory(self, key: FrameKey) -> Frame | None:
        """The frame, if no file has to be touched for it."""
        return self._log.cache.get(key)

    def _keep(self, key: FrameKey, frame: Frame) -> None:
        """The frame was read, and will be again: only a part of it was wanted."""

    # Carrying out ----------------------------------------------------------------------------

    def read(self, plan: QueuePlan) -> list[Slice]:
        """All the plan's messages, in order of their offsets; raises `LogDamaged`, `PositionGone`, `Busy`."""
        return self.read_up_to(plan, UNBOUNDED)[0]

    def read_up_to(self, plan: QueuePlan, bytes_max: int) -> tuple[list[Slice], int]:
        """The plan's messages until they take `bytes_max` bytes of memory, at least a frame's, and
        the offset to go on with: frames may be far larger in memory than on disk."""
        slices: list[Slice] = []
        size = 0
        for key, frame in self._frames(plan.extents):
            if size > bytes_max and slices:
                last = slices[-1]
                return slices, last.first_queue_offset + last.count
            size += frame.content.memory_bytes
            for run in frame.meta.runs:
                if run.topic == plan.topic and run.queue_id == plan.queue_id:
                    begin = max(plan.begin, run.first_queue_offset)
                    count = min(plan.end, run.first_queue_offset + run.count) - begin
                    if count > 0:
                        slices.append(Slice(frame, run, run.row + begin - run.first_queue_offset, count))
                        if plan.end < run.first_queue_offset + run.count:
                            self._keep(key, frame)
        return slices, plan.end

    def read_positions(self, plan: PositionPlan, topics: set[str] | None) -> list[Slice]:
        """All the plan's messages of `topics` (None: all), in order of their positions; raises
        `LogDamaged`, `PositionGone`."""
        return self.read_positions_up_to(plan, topics, UNBOUNDED)[0]

    def read_positions_up_to(
        self, plan: PositionPlan, topics: set[str] | None, bytes_max: int
    ) -> tuple[list[Slice], int]:
        """`read_positions` until they take `bytes_max` bytes of memory, at least a frame's, and the
        position to go on with."""
        slices: list[Slice] = []
        size = 0
        for _, frame in self._frames(plan.extents):
            if size > bytes_max:
                return slices, max(frame.meta.first_position, plan.begin)
            size += frame.content.memory_bytes
            parts = slices_of(frame, plan.begin, plan.end)
            slices += parts if topics is None else [part for part in parts if part.run.topic in topics]
        return slices, plan.end

    def _frames(self, extents: list[Extent]) -> Iterable[tuple[FrameKey, Frame]]:
        for segment, frames in extents:
            number = 0
            while number < len(frames):
                offset, _ = frames[number]
                key = segment.identity, offset
                frame = self._in_memory(key)
                if frame is not None:
                    if frame.meta.kind == KIND_MESSAGES:
                        yield key, frame
                    number += 1
                    continue
                end = adjacent(frames, number)
                for at, frame in self._read_frames(segment, frames[number:end]):
                    if frame.meta.kind == KIND_MESSAGES:
                        yield (segment.identity, at), frame
                number = end

    def _read_frames(self, segment: Segment, frames: list[tuple[int, int]]) -> Iterable[tuple[int, Frame]]:
        """Frames that follow one another in the segment, each with its place, below 0 for those from elsewhere."""
        begin = frames[0][0]
        try:
            data = read_bytes(segment, begin, frames[-1][0] + frames[-1][1] - begin)
        except PositionGone:
            if segment not in self._log.segments:
                raise
            data = memoryview(b"")
        for at, _ in frames:
            try:
                frame = segment.parse(data, at, at - begin)
            except LogDamaged as why:
                for frame in self.read_fallback(segment, at, why):
                    yield -1 - frame.meta.first_position, frame
            else:
                yield at, frame

    def read_fallback(self, segment: Segment, offset: int, why: LogDamaged) -> list[Frame]:
        """What the damaged frame at that byte of the segment held. Raises `why` when that is nowhere."""
        if self.fallback is None:
            raise why
        self.fallback.note(segment, why)
        # Kept: while the segment is written again its index's file is another's.
        index = segment.index = self.known_index(segment) or self._indexes.read(segment)
        number = index.frame_number(offset)
        begin = index.positions[number]
        end = index.positions[number + 1] if number + 1 < len(index.positions) else index.end_position
        return self.fallback.frames(begin, end, why) if begin < end else []

    # Looking up ------------------------------------------------------------------------------

    def message(self, position: int) -> Slice:
        """The message at `position`; raises `MessageNotFound`. For one thread: it plans and reads."""
        return self.read_message(self.plan_message(position))

    def plan_message(self, position: int) -> PositionPlan:
        """What to read for the message at `position`; raises `MessageNotFound`."""
        self.check_holds(position)
        return self.plan_positions(position, position + 1, None, 1)

    def check_holds(self, position: int) -> None:
        """Raise `MessageNotFound` where the log has no such position."""
        if not self._log.min_position <= position < self._log.next_position:
            raise MessageNotFound(f"the log holds no message at position {position}")

    def read_message(self, plan: PositionPlan) -> Slice:
        """The one message of the plan; raises `MessageNotFound`, `LogDamaged`, `PositionGone`."""
        slices = self.read_positions(plan, None)
        if not slices:
            raise MessageNotFound(f"the message at position {plan.begin} was lost to damage")
        return slices[0]

    def position_at_time(self, timestamp_ms: int) -> int:
        """The position of the first message stored at or after that time; the log's end if none."""
        return position_at_time(self._log.segments, self.index, timestamp_ms)

    def offset_at_position(self, queue: Queue, position: int) -> int:
        """The offset of the queue's first message at or after `position`; its end if none."""
        return offset_at_position(self._log.segments, self.index, queue, position)

    def end_of(self, topics: AbstractSet[str], begin: int, base: int = 0, end: int = 0) -> int:
        """The position after the last frame with messages of the topics, be they deleted or not, or `begin` if it's
        above. `base`: of the segments below it one knows that this is `end`."""
        for segment in reversed(self._log.segments):
            if segment.base_position < base:
                return max(begin, end)
            if segment.end_position <= begin and segment is not self._log.active:
                break
            if (found := self.end_in(self.index(segment), topics)) is not None:
                return max(begin, found)
        return begin

    @staticmethod
    def end_in(index: SegmentIndex, topics: AbstractSet[str]) -> int | None:
        """The same in one segment; None: it has no messages of the topics."""
        of_topics = [runs for key, runs in index.queues.items() if key[0] in topics and runs.first_offsets]
        return max((_end_of_last_frame(index, runs) for runs in of_topics), default=None)

    def has_any(self, segment: Segment, topics: AbstractSet[str]) -> bool:
        """Whether the segment, whose index is in memory, has messages of the topics."""
        return any(key[0] in topics and runs.first_offsets for key, runs in self.index(segment).queues.items())


def _end_of_last_frame(index: SegmentIndex, runs: QueueRuns) -> int:
    number = index.frame_number(runs.frame_offsets[-1]) + 1
    return index.positions[number] if number < len(index.positions) else index.end_position


def plan_frames_in(
    segment: Segment, index: SegmentIndex, topics: AbstractSet[str] | None, begin: int, end: int, bytes_max: int
) -> tuple[Extent, int, int]:
    """The frames of one segment with positions `begin ≤ p < end` of the topics; how far they go;
    their size. For any thread, while frames are added."""
    numbers: Iterable[int] = range(max(index.frame_at(begin), 0), len(index.positions))
    if topics is not None:
        numbers, end = frames_of(index, topics, begin, end, FRAMES_MAX)
    frames: list[tuple[int, int]] = []
    size = 0
    for number in numbers:
        if index.positions[number] >= end:
            break
        if frames and (size >= bytes_max or len(frames) >= FRAMES_MAX):
            return Extent(segment, frames), index.positions[number], size
        frame_bytes = index.frame_bytes(number)
        frames.append((index.offsets[number], frame_bytes))
        size += frame_bytes
    return Extent(segment, frames), end, size


def adjacent(frames: list[tuple[int, int]], number: int) -> int:
    """How far frames from `number` on follow one another closely enough to be read at once."""
    first = frames[number][0]
    end = number + 1
    while (
        end < len(frames)
        and frames[end][0] == frames[end - 1][0] + frames[end - 1][1]
        and frames[end][0] + frames[end][1] - first <= READ_BYTES
    ):
        end += 1
    return end
