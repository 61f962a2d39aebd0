"""A sealed segment that can't be read whole, and what is known around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakemq.model.errors import LogDamaged
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.log_state import LogState


class DamagedSegment(NamedTuple):
    """`segment`, whose file may be missing, is damaged, for the reason `why`. It ends where `following` begins.
    `before`: the segment before it, None for the log's first. `state`: the log's, as it is now; its last message was
    stored at `last_ms`."""

    segment: Segment
    following: Segment
    before: Segment | None
    state: LogState
    why: LogDamaged
    last_ms: int

    @property
    def end_position(self) -> int:
        """The position after the segment's last one."""
        return self.following.base_position

    def refused(self, why_not: str) -> LogDamaged:
        """The error for one that nothing else stands in for."""
        return LogDamaged(f"{self.why.detail}; {why_not}; lakemq log repair makes holes of what can't be read")


Mend = Callable[[DamagedSegment], None]
"""Puts a sound file in the segment's place, with all that the damaged one held. Raises `LogDamaged` where that
can't be proved, `OSError`."""


PutOff = Callable[[LogDamaged, int, LogState], None]
"""Takes note of damage below that position in the segment that is written, of which nothing but messages is lost, to
mend it later; the log's state is known. Raises `LogDamaged` where that can't be done."""


def refuse_to_put_off(why: LogDamaged, end: int, state: LogState) -> None:
    """Puts nothing off."""
    raise why


def refuse_to_mend(damaged: DamagedSegment) -> None:
    """Mends nothing."""
    raise damaged.why
