"""Neighbouring messages of one queue in one frame, as they are read and served: no message is touched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakemq.storage.segment.frame import Run
from lakemq.storage.segment.segment import Frame


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


def frames_bytes(slices: Iterable[Slice]) -> int:
    """What their frames have in memory, each once."""
    return sum({id(part.frame): part.frame.content.memory_bytes for part in slices}.values())
