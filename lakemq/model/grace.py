"""What has been known for a while: the newest position that was said at least so long ago."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

STEPS = 16
"""So finely a grace is divided: a position passes it at most a sixteenth later than it might."""


class _Step(NamedTuple):
    since_ms: int
    position: int


class Grace:
    """Positions that are said one after the other, and which of them are past the grace. Times are ms of a clock
    that nobody sets. Takes bounded memory, however often something is said."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._steps: deque[_Step] = deque([_Step(0, 0)])
        """Ascending in both; the first one is past the grace, or nothing."""

    def say(self, position: int, now_ms: int) -> None:
        """It goes up to here now. Where that is less than before, what was more never was."""
        steps = self._steps
        while steps and steps[-1].position > position and len(steps) > 1:
            steps.pop()
        if steps[-1].position > position:
            steps[-1] = _Step(steps[-1].since_ms, position)
        elif steps[-1].position < position:
            if len(steps) > 2 and now_ms - steps[-2].since_ms < self._grace_ms // STEPS:
                steps.pop()
            steps.append(_Step(now_ms, position))

    def past(self, now_ms: int) -> int:
        """The position that has been said for the whole grace; 0: none."""
        steps = self._steps
        while len(steps) > 1 and now_ms - steps[1].since_ms >= self._grace_ms:
            steps.popleft()
        return steps[0].position
