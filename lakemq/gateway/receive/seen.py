"""How far a receive looked through a queue in vain."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.storage.slices.holes import Gap


class Seen(NamedTuple):
    """What there was from `begin` on, where the group was in the queue, whose place had been reset so often: all
    below `low` is done with; all from there to `reached` was handed out or doesn't match, and of that the retries
    that don't match wait for others. `gaps`: what was gone."""

    begin: int
    resets: int
    low: int
    reached: int
    gaps: list[Gap]

    def holds_at(self, begin: int, resets: int) -> bool:
        """Whether it is so for a group that is there now: others' receives may have moved it on."""
        return resets == self.resets and begin >= self.begin

    def from_(self, begin: int) -> Seen:
        """What of it concerns a group that is there now."""
        gaps = [gap for gap in self.gaps if gap.end > begin]
        return Seen(begin, self.resets, max(self.low, begin), max(self.reached, begin), gaps)
