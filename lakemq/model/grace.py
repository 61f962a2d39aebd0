"""A position that must have been reported for a while before it counts: retention deletes no segment earlier
(`storage.compacted_grace_ms`). It has nothing to do with `routing.grace_ms`."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

STEPS = 16
"""Into how many steps a grace is divided: a position passes it at most a sixteenth later than it could."""


class _Step(NamedTuple):
    since_ms: int
    position: int


class Grace:
    """Positions that are reported one after the other, and which of them are past the grace. Times are ms of a clock
    that nobody sets. Takes bounded memory, however often a position is reported."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._steps: deque[_Step] = deque([_Step(0, 0)])
        """Never empty, and ascending in both. The first one is past the grace, or is position 0."""

    def say(self, position: int, now_ms: int) -> None:
        """Reports the position of now. If it is lower than one before, that one never counts."""
        steps = self._steps
        while steps[-1].position > position and len(steps) > 1:
            steps.pop()
        if steps[-1].position > position:
            steps[-1] = _Step(steps[-1].since_ms, position)
        elif steps[-1].position < position:
            if len(steps) > 2 and now_ms - steps[-2].since_ms < self._grace_ms // STEPS:
                steps.pop()
            steps.append(_Step(now_ms, position))

    def past(self, now_ms: int) -> int:
        """The highest position that has been reported for the whole grace; 0: none."""
        steps = self._steps
        while len(steps) > 1 and now_ms - steps[1].since_ms >= self._grace_ms:
            steps.popleft()
        return steps[0].position
