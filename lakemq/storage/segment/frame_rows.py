"""Single messages of one frame, as copies and look-ups take them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from lakemq.storage.segment.frame import Run
from lakemq.storage.segment.rows import Row
from lakemq.storage.segment.segment import Frame


class FrameRows(NamedTuple):
    """Rows `numbers` of a frame."""

    frame: Frame
    numbers: list[int]

    def row(self, number: int) -> Row:
        """Row `number` of the frame, for a copy of it."""
        return self.frame.content.copies([number], self.frame.meta.store_time_ms)[0]

    def value(self, name: str, number: int) -> Any:
        """The value of row `number` of the frame in a column of `STORED`; None where it has none."""
        return self.frame.content.values(name, number, 1)[0]

    def values(self, name: str) -> list[Any]:
        """Those of all of them in a column of `STORED`."""
        begin, end = self.numbers[0], self.numbers[-1] + 1
        values = self.frame.content.values(name, begin, end - begin)
        return values if len(values) == len(self.numbers) else [values[number - begin] for number in self.numbers]

    def rows(self) -> dict[int, Row]:
        """All of them by position, for copies."""
        first, meta = self.frame.meta.first_position, self.frame.meta
        rows = self.frame.content.copies(self.numbers, meta.store_time_ms)
        return {first + number: row for number, row in zip(self.numbers, rows, strict=True)}

    def pieces(self, rows_max: int) -> Iterator[FrameRows]:
        """The same rows, at most so many at a time."""
        for begin in range(0, len(self.numbers), rows_max):
            yield FrameRows(self.frame, self.numbers[begin : begin + rows_max])

    def run_of(self, number: int) -> Run:
        """The run that row `number` of the frame is in."""
        runs = self.frame.meta.runs
        return runs[bisect_right(runs, number, key=lambda run: run.row) - 1]
