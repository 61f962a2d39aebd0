"""Time that a wrong clock can't push ahead: the wall clock's, as far as a clock that nobody can set confirms it.

A broker's time is made of this, and so "due" in all of routing. Two clocks are compared: the wall clock, which people
and NTP set, and one that only counts, also while the machine sleeps. If the wall clock runs ahead of the counted time
by more than a little, it has *jumped*: steady time continues at the counted pace, until the wall clock has stayed ahead
for so long that it is believed. If the wall clock was set back, steady time stands still until the wall clock catches
up: it never goes back.

Whatever deletes, or can't be undone, needs steady time. For a mere time stamp the wall clock is good enough.
"""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """Both clocks at one moment, in ms: the wall clock since 1970, and the counted one since any moment."""

    wall_ms: int
    counted_ms: int


class Jump(NamedTuple):
    """The wall clock is `ahead_ms` ahead of steady time, since the counted clock said `since_ms`. At that moment it
    showed `gap_ms` more than the counted clock."""

    ahead_ms: int
    since_ms: int
    gap_ms: int


class SteadyClock:
    """Steady time of one process. Its owner reads the clocks and calls `observe` now and then: the more often, the
    finer the answers are. For one thread at a time.

    `confirm_ms`: a jump is believed once the wall clock has stayed there for so long; 0: at once. `tolerance_ms`: a
    wall clock that is no further ahead has not jumped, as NTP moves it so far. Steady time then runs an eighth faster
    until it has caught up.
    """

    def __init__(self, first: Reading, confirm_ms: int, tolerance_ms: int = 2_000, last_ms: int | None = None) -> None:
        """`last_ms`: a time that has certainly passed, such as the last message's. Nobody knows how long the machine
        has been off since, so a wall clock that is far ahead of it has jumped. None: the wall clock is believed."""
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
        """The jump of the wall clock, as long as it isn't believed."""
        return self._jump

    def confirm(self) -> None:
        """Believes the wall clock as it was observed last."""
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
            # The eighths that are left over are kept: with an observation each millisecond it would never catch up.
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
