"""A log that nobody has open: how it ends, and what its frames are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lakemq.model.agreement import History
from lakemq.model.errors import LakemqError
from lakemq.storage.disk.files import Files
from lakemq.storage.log.cutting import finish_cut
from lakemq.storage.log.recovery import list_segments_of_closed, read_segment
from lakemq.storage.segment.frame import KIND_STATE, FrameError, decode_meta
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.state.log_identity import LogIdentity


class Border(NamedTuple):
    """A place between two frames: `offset` bytes of the segment are before it, and all positions below `position`."""

    segment: Segment
    offset: int
    position: int


class ClosedLog:
    """The log in that directory, which there has to be, as far as its frames are sound; a cut of it that had begun is
    made (`cut_before`). Whoever holds the directory's lock may read it, and nothing of it is changed. Raises
    `LogDamaged`, `LakemqError`, `OSError`; so do its functions."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.files, self.directory = files, directory
        self.cut_before = finish_cut(files, directory)
        self.segments = list_segments_of_closed(files, directory)
        self._indexes: dict[Segment, SegmentIndex] = {}
        self.identity = self._read_end()

    def _read_end(self) -> LogIdentity:
        while self.segments:
            index, state = read_segment(self.files, self.segments[-1])
            if index.covered_bytes:
                self._indexes[self.segments[-1]] = index
                return state.identity
            self.segments.pop()  # it was never begun
        raise LakemqError(f"there is no log in {self.directory}")

    @property
    def history(self) -> History:
        """Its epochs, and its end."""
        return History(tuple(self.identity.epochs), self.index(self.segments[-1]).end_position)

    @property
    def min_position(self) -> int:
        """The first position that it holds."""
        return self.segments[0].base_position

    def index(self, segment: Segment) -> SegmentIndex:
        """The segment's index, up to its first bad frame. Of those but the last one's one is kept."""
        if segment not in self._indexes:
            for other in [each for each in self._indexes if each is not self.segments[-1]]:
                del self._indexes[other]
            self._indexes[segment], _ = read_segment(self.files, segment)
        return self._indexes[segment]

    def border(self, position: int) -> Border:
        """The last place between frames at or before that position, which isn't below `min_position`. It is behind a
        segment's last frame, and not behind the state that the next one begins with, but for the log's first."""
        assert position >= self.min_position
        for segment in reversed(self.segments):
            is_first = segment is self.segments[0]
            if segment.base_position >= position and not is_first:
                continue
            index = self.index(segment)
            if index.end_position <= position:
                return Border(segment, index.covered_bytes, index.end_position)
            number = index.frame_at(position)
            at = index.positions[number]
            if at > segment.base_position or is_first:
                return Border(segment, index.offsets[number], at)
        raise AssertionError("a log has a first segment")

    def frame_before(self, border: Border) -> bytes:
        """The frame of messages, or the hole, that ends there, as its file holds it; empty where the log begins."""
        segment, offset, _ = border
        index = self.index(segment)
        number = index.frame_number(offset) - 1
        while number >= 0:
            data = segment.read(index.offsets[number], index.frame_bytes(number))
            if not _is_state(data):
                return data
            number -= 1
        return b""


def _is_state(data: bytes) -> bool:
    try:
        return decode_meta(data).kind == KIND_STATE
    except FrameError:
        return False
