"""Positions by the time that they are due, each to be taken away again before or when it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice

SLACK = 64
LOOKS_EACH = 4
"""For each time that is counted so many are looked at, as some that are over may still stand there."""


class Dues:
    """Positions by due time in ms. Its size is bounded by what is in it, whatever has been."""

    def __init__(self) -> None:
        # Those of one time in the order in which they came: a dictionary is a set that keeps it.
        self._positions: dict[int, dict[int, None]] = {}
        # Every due time that has positions, and some that had.
        self._heap: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._positions.values()))

    def add(self, due_ms: int, positions: Iterable[int]) -> None:
        """The positions are due then."""
        held = self._positions.get(due_ms)
        if held is not None:
            held.update(dict.fromkeys(positions))
            return
        self._positions[due_ms] = dict.fromkeys(positions)
        heapq.heappush(self._heap, due_ms)
        self._tidy()

    def remove(self, due_ms: int, position: int) -> None:
        """Forget the position, if it is there."""
        held = self._positions.get(due_ms)
        if held is not None:
            held.pop(position, None)
            if not held:
                del self._positions[due_ms]
                self._tidy()

    def earliest(self) -> int | None:
        """The first due time in ms, or None."""
        while self._heap and self._heap[0] not in self._positions:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def count(self, at_ms: int, times_max: int) -> int:
        """How many are due at that time: of those due at more than `times_max` different times, some that are due at
        that many. What isn't due yet costs nothing."""
        self.earliest()  # who looks at this now and then takes nothing away
        due, looks, at = set[int](), LOOKS_EACH * times_max, [0]
        while at and looks and len(due) < times_max:
            number = at.pop()
            if number < len(self._heap) and (due_ms := self._heap[number]) <= at_ms:
                looks -= 1
                if due_ms in self._positions:
                    due.add(due_ms)
                at += 2 * number + 1, 2 * number + 2  # below it in the heap is what is due later
        return sum(len(self._positions[each]) for each in due)

    def _tidy(self) -> None:
        """So that at most half of what stands in the heap is over."""
        if len(self._heap) > 2 * len(self._positions) + SLACK:
            self._heap = sorted(self._positions)

    def take(self, now_ms: int, count_max: int) -> list[int]:
        """Up to `count_max` positions that are due at `now_ms`, earliest first; they are in here no more."""
        taken: list[int] = []
        while len(taken) < count_max and (due := self.earliest()) is not None and due <= now_ms:
            held = self._positions[due]
            some = list(islice(held, count_max - len(taken)))
            taken += some
            for position in some:
                del held[position]
            if not held:
                del self._positions[due]
        return taken
