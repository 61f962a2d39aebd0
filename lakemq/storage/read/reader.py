"""Reading messages: by queue and offset, by position, by time.

What is read is slices of frames: no message is touched. A read is planned first, on the loop, from
the indexes; carrying it out needs only segments' bytes, so it may run in a thread when the frames
aren't in the cache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from lakemq.model.errors import LogDamaged, MessageNotFound, PositionGone
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.fallback import Fallback
from lakemq.storage.read.frame_counts import frames_of, has_runs
from lakemq.storage.read.sealed_indexes import SealedIndexes
from lakemq.storage.segment.cache import FrameKey
from lakemq.storage.segment.frame import KIND_MESSAGES, Run
from lakemq.storage.segment.segment import Frame, Segment, read_bytes
from lakemq.storage.segment.segment_index import QueueRuns, SegmentIndex
from lakemq.storage.state.topics import Queue

READ_BYTES = 1024 * 1024
FRAMES_MAX = 16_384
UNBOUNDED = 2**63


class Slice(NamedTuple):
    """Rows `row … row + count` of a frame, all of one queue, from `first_queue_offset` on."""

    frame: Frame
    run: Run
    row: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def first_queue_offset(self) -> int:
        return self.run.first_queue_offset + self.row - self.run.row

    @property
    def end_queue_offset(self) -> int:
        return self.first_queue_offset + self.count

    @property
    def first_position(self) -> int:
        return self.frame.meta.first_position + self.row


def frames_bytes(slices: Iterable[Slice]) -> int:
    """What their frames have in memory, each once."""
    return sum({id(part.frame): part.frame.content.memory_bytes for part in slices}.values())


class Extent(NamedTuple):
    """Frames `number … ` of a segment that a plan wants, as `(offset, bytes)`."""

    segment: Segment
    frames: list[tuple[int, int]]


class QueuePlan(NamedTuple):
    """A read of one queue: its frames, and the offsets `begin ≤ o < end` wanted of them."""

    extents: list[Extent]
    topic: str
    queue_id: int
    begin: int
    end: int


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
        end = queue.after_gap(offset)
        if end > offset:
            return QueuePlan([], queue.topic, queue.queue_id, offset, end)
        extents: list[Extent] = []
        number = self._segment_of_offset(queue, offset)
        size = 0
        while number < len(self._log.segments) and end < offset + messages_max and size < bytes_max:
            segment = self._log.segments[number]
            index = self.index(segment)
            runs = index.queues.get(queue.key)
            number += 1
            if runs is not None and runs.next_offset > end:
                extent, end, step = _plan_runs(segment, index, runs, end, offset + messages_max, bytes_max - size)
                extents.append(extent)
                size += step
                if end < runs.next_offset:
                    break
            elif number < len(self._log.segments):
                # Many may have nothing of a queue that is seldom used, and each index is read from disk.
                number = max(number, self._segment_of_offset(queue, end))
        if end == offset:
            # The rest of the queue was lost to damage: a plan always gets on.
            end = queue.next_offset
        return QueuePlan(extents, queue.topic, queue.queue_id, offset, min(end, offset + messages_max))

    def _segment_of_offset(self, queue: Queue, offset: int) -> int:
        """The last segment in whose beginning the queue stood at or below `offset`."""
        segments = self._log.segments
        low, high = 0, len(segments) - 1
        while low < high:
            middle = (low + high + 1) // 2
            runs = self.index(segments[middle]).queues.get(queue.key)
            if runs is None or runs.start_offset <= offset:
                low = middle
            else:
                high = middle - 1
        # Segments in which the queue was not made yet say nothing: go back to one that knows it.
        while low > 0:
            runs = self.index(segments[low]).queues.get(queue.key)
            if runs is not None and runs.start_offset <= offset:
                break
            low -= 1
        return low

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
        bases = [segment.base_position for segment in self._log.segments]
        return max(bisect_right(bases, position) - 1, 0)

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
        if not self._log.min_position <= position < self._log.next_position:
            raise MessageNotFound(f"the log holds no message at position {position}")
        return self.plan_positions(position, position + 1, None, 1)

    def read_message(self, plan: PositionPlan) -> Slice:
        """The one message of the plan; raises `MessageNotFound`, `LogDamaged`, `PositionGone`."""
        slices = self.read_positions(plan, None)
        if not slices:
            raise MessageNotFound(f"the message at position {plan.begin} was lost to damage")
        return slices[0]

    def position_at_time(self, timestamp_ms: int) -> int:
        """The position of the first message stored at or after that time; the log's end if none."""
        segments = self._log.segments
        times = [segment.last_store_time_ms for segment in segments[:-1]]
        segment = segments[bisect_left(times, timestamp_ms)]
        return self.index(segment).position_at_time(timestamp_ms)

    def offset_at_position(self, queue: Queue, position: int) -> int:
        """The offset of the queue's first message at or after `position`; its end if none."""
        segments = self._log.segments
        for segment in segments[self.segment_of_position(position) :]:
            index = self.index(segment)
            runs = index.queues.get(queue.key)
            if runs is None or not runs.first_offsets or position >= index.end_position:
                continue
            number = bisect_left(runs.frame_offsets, index.offsets[max(index.frame_at(position), 0)])
            if number < len(runs.first_offsets):
                return max(runs.first_offsets[number], queue.min_offset)
        return queue.next_offset

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

    def limit_all(self, begin: int, end: int, messages_max: int) -> int:
        """The same for the messages of all topics: that many positions, and where that is in a large hole its end, as
        the hole that begins an epoch may be of 2^32 positions, which nobody is to walk in steps."""
        reached = begin + messages_max
        if reached >= end:
            return end
        index = self.index(self._log.segments[self.segment_of_position(reached)])
        number = index.frame_at(reached)
        is_last = number + 1 >= len(index.positions)
        after = index.end_position if is_last else index.positions[number + 1]
        if number < 0 or after - index.positions[number] <= messages_max or has_runs(index, number):
            return reached
        return min(end, after)


def slices_of(frame: Frame, begin: int, end: int) -> list[Slice]:
    """The frame's messages with positions `begin ≤ p < end`, a slice a run."""
    first = frame.meta.first_position
    slices: list[Slice] = []
    for run in frame.meta.runs:
        row = max(begin - first, run.row)
        count = min(end - first, run.row + run.count) - row
        if count > 0:
            slices.append(Slice(frame, run, row, count))
    return slices


def _end_of_last_frame(index: SegmentIndex, runs: QueueRuns) -> int:
    number = index.frame_number(runs.frame_offsets[-1]) + 1
    return index.positions[number] if number < len(index.positions) else index.end_position


def _plan_runs(
    segment: Segment, index: SegmentIndex, runs: QueueRuns, begin: int, end: int, bytes_max: int
) -> tuple[Extent, int, int]:
    """The frames of one segment with the queue's offsets `begin ≤ o < end`, in about `bytes_max`."""
    frames: list[tuple[int, int]] = []
    size = 0
    number = runs.find(begin)
    while number < len(runs.first_offsets) and runs.first_offsets[number] < end:
        if frames and (size >= bytes_max or len(frames) >= FRAMES_MAX):
            break
        offset = runs.frame_offsets[number]
        frame_bytes = index.frame_bytes(index.frame_number(offset))
        frames.append((offset, frame_bytes))
        size += frame_bytes
        number += 1
    reached = runs.first_offsets[number] if number < len(runs.first_offsets) else runs.next_offset
    return Extent(segment, frames), reached, size


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
