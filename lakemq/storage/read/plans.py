"""Plans of reads whose size a client chooses: indexes that aren't in memory are read aside, and so are those of many
queues looked at, so that others go on meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

from lakemq.model.errors import PositionGone
from lakemq.storage.read.frame_counts import fit_in
from lakemq.storage.read.look_up import (
    Extent,
    IndexOf,
    QueuePlan,
    RowsPlan,
    Segments,
    Sought,
    limit_all,
    offset_at_position,
    offsets_at_time,
    plan_queue,
    plan_rows,
    position_at_time,
    stored_ms,
)
from lakemq.storage.read.reader import PositionPlan, Reader, plan_frames_in
from lakemq.storage.read.sealed_indexes import INDEXES_MAX
from lakemq.storage.read.spans import Span, spans
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.state.topics import Queue

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

QUEUES_AT_ONCE = 500
"""Of so many an index is looked at on the loop."""
READ_MAX = 4
"""So many indexes are read at most for one plan, which then ends there."""
ENDS_MAX = 16
Aside = Callable[..., Awaitable[Any]]
"""Calls a function with arguments in a thread."""


class _End(NamedTuple):
    """Of some topics: in the segments below `base`, and above `begin`, their last frame ends at `end`; where that is
    `begin`, they have none there."""

    base: int
    begin: int
    end: int


class _NotInMemory(Exception):
    """An index is not."""


class _Indexes:
    """Indexes for one look, in a thread: those that aren't in memory are read, and the last few kept."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.read: OrderedDict[Segment, SegmentIndex] = OrderedDict()

    def get(self, segment: Segment) -> SegmentIndex:
        """The segment's index; raises as `Reader.read_index`."""
        index = self._reader.known_index(segment) or self.read.pop(segment, None)
        if index is None:
            index = self._reader.read_index(segment)
        if segment.index is not index:
            self.read[segment] = index
            while len(self.read) > INDEXES_MAX:
                self.read.popitem(last=False)
        return index


class Plans:
    """Those of one log. Lives on its loop."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._ends: OrderedDict[frozenset[str], _End] = OrderedDict()

    async def queue(self, queue: Queue, offset: int, messages_max: int, bytes_max: int, aside: Aside) -> QueuePlan:
        """As `Reader.plan`. Raises `PositionGone`, `LogDamaged`, `Busy`."""
        sought = Sought(queue, offset, messages_max, bytes_max)
        return await self._of_now(aside, plan_queue, sought, holds=lambda: offset >= queue.min_offset)

    async def rows(self, positions: Sequence[int], aside: Aside) -> list[RowsPlan]:
        """What to read for the messages at `positions`, ascending; those that aren't in the log are left out. What
        leaves it meanwhile is left out too, or found to be gone by who reads it. Raises as `queue`."""
        return await self._of_now(aside, plan_rows, positions, self._reader.next_position)

    async def message(self, position: int, aside: Aside) -> PositionPlan:
        """As `Reader.plan_message`. Raises as `queue`, and `MessageNotFound`."""
        self._reader.check_holds(position)
        return await self.positions(position, position + 1, None, 1, aside)

    async def stored_ms(self, position: int, aside: Aside) -> int:
        """When the message at `position`, which the log holds, was stored; of what leaves it meanwhile when the first
        was that is left. Raises as `queue`."""
        return await self._of_now(aside, stored_ms, position)

    async def position_at_time(self, timestamp_ms: int, aside: Aside) -> int:
        """As `Reader.position_at_time`. Raises as `queue`."""
        return await self._of_now(aside, position_at_time, timestamp_ms)

    async def offset_at_position(self, queue: Queue, position: int, aside: Aside) -> int:
        """As `Reader.offset_at_position`. Raises as `queue`."""
        end = queue.next_offset  # what comes meanwhile may be in segments that are not looked at
        return min(await self._of_now(aside, offset_at_position, queue, position), end)

    async def offsets_at_time(self, queues: Sequence[Queue], timestamp_ms: int, aside: Aside) -> list[int]:
        """Where each of the queues stood before the first message that was stored at or after that time; its end if
        none was. Of `QUEUES_AT_ONCE` at most, and one index. Raises as `queue`."""
        ends = [queue.next_offset for queue in queues]  # what comes meanwhile is after them
        return list(map(min, await self._of_now(aside, offsets_at_time, queues, timestamp_ms), ends))

    async def spans(self, queues: Sequence[Queue], aside: Aside) -> list[Span]:
        """When the oldest and the newest message that the log has of each of the queues were stored. Of
        `QUEUES_AT_ONCE` at most. Raises as `queue`."""
        return await self._of_now(aside, spans, queues)

    async def _of_now(
        self,
        aside: Aside,
        look: Callable[[Segments, IndexOf, *Ts], R],
        *wanted: *Ts,
        holds: Callable[[], bool] = lambda: True,
    ) -> R:
        """What `look` says: at once where all indexes that it asks for are in memory, else from a thread, and then once
        more where segments have left the log meanwhile, and it `holds` what is wanted."""
        try:
            return look(self._reader.segments(), self._in_memory, *wanted)
        except _NotInMemory:
            pass
        while True:
            first = self._reader.segments()[0]
            try:
                return await self._looked_up(aside, look, *wanted)
            except PositionGone:
                if self._reader.segments()[0] is first or not holds():
                    raise

    async def _looked_up(self, aside: Aside, look: Callable[[Segments, IndexOf, *Ts], R], *wanted: *Ts) -> R:
        """What `look` says, from a thread."""
        reader, indexes = self._reader, _Indexes(self._reader)
        found = await aside(look, list(reader.segments()), indexes.get, *wanted)
        for segment, index in indexes.read.items():
            reader.enter(segment, index)
        return found

    def _in_memory(self, segment: Segment) -> SegmentIndex:
        if self._reader.known_index(segment) is None:
            raise _NotInMemory
        return self._reader.index(segment)

    async def positions(
        self, begin: int, end: int, topics: AbstractSet[str] | None, bytes_max: int, aside: Aside
    ) -> PositionPlan:
        """As `Reader.plan_positions`, and it may end where more indexes would have to be read. Raises `PositionGone`,
        `LogDamaged`, `Busy`."""
        reader = self._reader
        extents: list[Extent] = []
        size, at, read = 0, begin, 0
        for segment in reader.segments()[reader.segment_of_position(begin) :]:
            if at >= end or size >= bytes_max:
                break
            if reader.known_index(segment) is None:
                if extents or read >= READ_MAX:
                    break
                read += 1
            index = await self._index(segment, aside)
            to = min(end, index.end_position)
            wanted = segment, index, topics, at, to, bytes_max - size
            is_large = topics is not None and len(index.queues) > QUEUES_AT_ONCE
            extent, at, step = await aside(plan_frames_in, *wanted) if is_large else plan_frames_in(*wanted)
            if extent.frames:
                extents.append(extent)
            if at < to:
                break
            size += step
        return PositionPlan(extents, begin, min(at, end))

    async def end_of(self, topics: AbstractSet[str], begin: int, aside: Aside) -> Callable[[], int]:
        """What says `Reader.end_of` as of when it is called, and reads no index then, but of segments that were sealed
        meanwhile. Raises `LogDamaged`, `Busy`."""
        reader, key = self._reader, frozenset(topics)
        known = self._ends.pop(key, None)
        if known is not None and begin < known.begin == known.end:
            known = None
        *sealed, active = reader.segments()
        found = _End(active.base_position, begin, begin)
        if not reader.has_any(active, topics):
            for segment in reversed(sealed):
                if known is not None and segment.base_position < known.base:
                    found = known._replace(base=active.base_position)
                    break
                if segment.end_position <= begin:
                    break
                if (index := await self._index_if_there(segment, aside)) is None:
                    break  # nor is any before it
                if (end := reader.end_in(index, topics)) is not None:
                    found = found._replace(end=end, begin=min(begin, end - 1))
                    break
            self._ends[key] = found
            while len(self._ends) > ENDS_MAX:
                self._ends.popitem(last=False)
        return lambda: reader.end_of(topics, begin, found.base, found.end)

    async def limit(
        self, topics: AbstractSet[str] | None, begin: int, end: int, messages_max: int, aside: Aside
    ) -> int:
        """A position `e`, `begin < e ≤ end`, with at most `messages_max` messages of the topics (None: all) in
        `begin ≤ p < e`: as far as whole frames go, or else that many positions. Raises `LogDamaged`, `Busy`."""
        if topics is None:
            return await self._of_now(aside, limit_all, begin, end, messages_max)
        reader, left, reached = self._reader, messages_max, begin
        for segment in reader.segments()[reader.segment_of_position(begin) :]:
            if (index := await self._index_if_there(segment, aside)) is None:
                reached = max(reached, segment.end_position)
                if reached >= end:
                    break
                continue
            is_large = len(index.queues) > QUEUES_AT_ONCE
            wanted = index, topics, begin, left
            fitting, rows = await aside(fit_in, *wanted) if is_large else fit_in(*wanted)
            left -= rows
            if fitting < len(index.positions):
                reached = max(reached, index.positions[fitting])
                break
            reached = index.end_position
            if reached >= end:
                break
        # The frame that doesn't fit whole has at most so many in so many positions.
        return min(end, reached + left)

    async def _index_if_there(self, segment: Segment, aside: Aside) -> SegmentIndex | None:
        """None: the segment has left the log since it was looked for, with all that are before it."""
        try:
            return await self._index(segment, aside)
        except PositionGone:
            return None

    async def _index(self, segment: Segment, aside: Aside) -> SegmentIndex:
        if self._reader.known_index(segment) is None:
            self._reader.enter(segment, await aside(self._reader.read_index, segment))
        return self._reader.index(segment)
