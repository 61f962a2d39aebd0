"""What a consumer of the flights saw: how many, and whether in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts messages of one queue, and those that break the rules.

    `sequence` is a flight's number in the replay. Per tail number it must rise. The same number
    twice is `repeated`, whichever tail number it has.
    """

    consumed: int = 0
    out_of_order: int = 0
    repeated: int = 0
    seen: set[int] = field(default_factory=set[int])
    last: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, sequence: int, tail: str | None) -> None:
        """Count one message; to be called in the order of the queue."""
        self.consumed += 1
        if sequence in self.seen:
            self.repeated += 1
        self.seen.add(sequence)
        if tail is not None:
            if sequence <= self.last.get(tail, -1):
                self.out_of_order += 1
            self.last[tail] = sequence


@dataclass(frozen=True)
class Outcome:
    """The tallies of all queues together."""

    consumed: int
    missing: int
    repeated: int
    out_of_order: int
    split_tails: int
    """Tail numbers whose messages came from more than one queue: they have no order."""


def total(tallies: Iterable[Tally], produced: int) -> Outcome:
    """All queues together, against the `produced` flights numbered from 0."""
    tallies = list(tallies)
    seen = {sequence for tally in tallies for sequence in tally.seen}
    tails = {tail for tally in tallies for tail in tally.last}
    return Outcome(
        consumed=sum(tally.consumed for tally in tallies),
        missing=len(set(range(produced)) - seen),
        repeated=sum(tally.consumed for tally in tallies) - len(seen),
        out_of_order=sum(tally.out_of_order for tally in tallies),
        split_tails=sum(len(tally.last) for tally in tallies) - len(tails),
    )
