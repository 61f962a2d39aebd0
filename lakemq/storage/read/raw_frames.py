"""Frames as they stand in the log's files, for who takes the log as it is."""

from __future__ import annotations

from lakemq.model.errors import PositionGone
from lakemq.storage.read.look_up import Extent
from lakemq.storage.read.reader import PositionPlan, Reader, adjacent
from lakemq.storage.segment.segment import Segment, read_bytes


def with_states(reader: Reader, plan: PositionPlan) -> PositionPlan:
    """A plan of all frames, those without messages too, and with a segment's first position the state that the segment
    begins with."""
    return plan._replace(extents=[_with_state(reader, extent, plan.begin) for extent in plan.extents])


def with_state_alone(reader: Reader, plan: PositionPlan, newest: Segment) -> PositionPlan:
    """A plan without frames, with the state that the newest segment begins with where that is what it begins with:
    for who begins a log of it."""
    if plan.extents or plan.begin != newest.base_position:
        return plan
    return plan._replace(extents=[Extent(newest, [(0, reader.index(newest).frame_bytes(0))])])


def _with_state(reader: Reader, extent: Extent, begin: int) -> Extent:
    segment, frames = extent
    if begin > segment.base_position or frames[0][0] == 0:
        return extent
    return Extent(segment, [(0, reader.index(segment).frame_bytes(0)), *frames])


def size_of(plan: PositionPlan) -> int:
    """The bytes of all frames of the plan."""
    return sum([size for extent in plan.extents for _, size in extent.frames])


def read_raw(reader: Reader, plan: PositionPlan) -> list[memoryview]:
    """The bytes of all frames of the plan in pieces, in order; unchecked, as who gets them checks them. In any thread.
    Raises `PositionGone` where a segment has left or was written anew, `LogDamaged` where its file isn't whole, and
    `Busy` where it can't be read now."""
    pieces: list[memoryview] = []
    for segment, frames in plan.extents:
        number = 0
        while number < len(frames):
            end = adjacent(frames, number)
            begin, (last, last_bytes) = frames[number][0], frames[end - 1]
            pieces.append(_read(reader, segment, begin, last + last_bytes - begin))
            number = end
    return pieces


def read_at_once(reader: Reader, plan: PositionPlan) -> list[memoryview] | None:
    """As `read_raw`, on the event loop, where all of it is in memory; None: a disk may have to be asked."""
    pieces: list[memoryview] = []
    for segment, frames in plan.extents:
        begin, (last, last_bytes) = frames[0][0], frames[-1]
        size = last + last_bytes - begin
        if segment is not reader.segments()[-1] or size != sum([each for _, each in frames]):
            return None
        data = segment.read_at_once(begin, size)
        if data is None or len(data) < size:
            return None
        pieces.append(memoryview(data))
    return pieces


def _read(reader: Reader, segment: Segment, begin: int, size: int) -> memoryview:
    try:
        data = read_bytes(segment, begin, size)
    except PositionGone:
        data = memoryview(b"")
    if segment not in reader.segments():
        raise PositionGone(f"segment {segment.path.name} has left the log, or another file has taken its place")
    if len(data) < size:
        why = segment.damaged(begin + len(data), "the file ends")
        reader.tell(segment, why)
        raise why
    return data
