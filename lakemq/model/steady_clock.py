"""Time that a wrong clock can't push ahead: the wall's, as far as a clock that is never set bears it out.

Two clocks are compared: the wall's, which people and NTP set, and one that only counts, also while the machine
sleeps. Where the wall runs ahead of what was counted by more than a little, it has *jumped*: steady time goes on
at the counted pace, until the wall has stayed where it jumped to for so long that it is believed. A wall that
was set back is waited for: steady time stands still, and never goes back.

What deletes, or can't be undone, asks for steady time; what merely stamps may go by the wall.
"""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """Both clocks at one moment, in ms: the wall's since 1970, and the counted one since whenever."""

    wall_ms: int
    counted_ms: int


class Jump(NamedTuple):
    """The wall is ahead by `ahead_ms`, and has been since `since_ms` of the counted clock, when it showed
    `gap_ms` more than that."""

    ahead_ms: int
    since_ms: int
    gap_ms: int


class SteadyClock:
    """Steady time of one process. Whoever owns it reads the clocks and calls `observe` every now and then;
    how often changes nothing but how fine the answers are. Not for several threads at once.

    `confirm_ms`: a jump is believed once the wall has stayed there for so long; 0: at once. `tolerance_ms`: so
    far ahead is no jump, but what NTP does, and is caught up with at an eighth of the pace.
    """

    def __init__(self, first: Reading, confirm_ms: int, tolerance_ms: int = 2_000, last_ms: int | None = None) -> None:
        """`last_ms`: a time that has certainly been, such as the last message's. How long the machine was off
        since can't be known: a wall far ahead of that is a jump like any other. None: the wall is believed."""
        self._confirm_ms = confirm_ms
        self._tolerance_ms = tolerance_ms
        self._time_ms = first.wall_ms if last_ms is None else last_ms
        self._counted_ms = first.counted_ms
        self._jump: Jump | None = None
        self._eighths = 0
        self.observe(first)

    @property
    def time_ms(self) -> int:
        """Steady time at the last observation, ms since 1970. Never goes back."""
        return self._time_ms

    @property
    def jump(self) -> Jump | None:
        """How the wall has jumped, while that isn't believed."""
        return self._jump

    def confirm(self) -> None:
        """Believe the wall as it was observed last: somebody who knows has looked at it."""
        if self._jump is not None:
            self._time_ms += self._jump.ahead_ms
            self._jump = None

    def observe(self, now: Reading) -> int:
        """Steady time at this reading."""
        counted_ms = max(now.counted_ms - self._counted_ms, 0)
        self._counted_ms += counted_ms
        expected_ms = self._time_ms + counted_ms
        ahead_ms = now.wall_ms - expected_ms
        if ahead_ms <= self._tolerance_ms:
            self._jump = None
            # Eighths are kept, for who observes every millisecond: it would never catch up.
            catch_up_ms, self._eighths = divmod(self._eighths + counted_ms, 8)
            self._time_ms = max(self._time_ms, min(now.wall_ms, expected_ms + catch_up_ms))
            return self._time_ms
        self._time_ms = expected_ms
        gap_ms = now.wall_ms - self._counted_ms
        jump = self._jump
        if jump is None or abs(gap_ms - jump.gap_ms) > self._tolerance_ms:
            jump = Jump(ahead_ms, self._counted_ms, gap_ms)
        self._jump = jump._replace(ahead_ms=ahead_ms)
        if self._counted_ms - jump.since_ms >= self._confirm_ms:
            self.confirm()
        return self._time_ms
