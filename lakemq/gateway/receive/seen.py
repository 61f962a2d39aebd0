"""How far a receive looked through a queue in vain."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.gateway.receive.backlog import Life
from lakemq.storage.slices.holes import Gap


class Seen(NamedTuple):
    """What there was from `begin` on, where the group was in the queue, in that life of its place there: all
    below `low` is done with; all from there to `reached` was handed out or doesn't match, and of that the retries
    that don't match wait for others. `gaps`: what was gone."""

    begin: int
    life: Life
    low: int
    reached: int
    gaps: list[Gap]

    def holds_at(self, begin: int, life: Life) -> bool:
        """Whether it is so for a group that is there now: others' receives may have moved it on."""
        return life == self.life and begin >= self.begin

    def from_(self, begin: int) -> Seen:
        """What of it concerns a group that is there now."""
        gaps = [gap for gap in self.gaps if gap.end > begin]
        return Seen(begin, self.life, max(self.low, begin), max(self.reached, begin), gaps)
