"""Which of any number of names are told one by one, and what is told of all others together.

Counters must never fall: who reads them takes that for a restart. So a name that is told stays so until it is gone, and
what was told of it with the others before stays theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import nsmallest
from typing import Generic, NamedTuple, TypeVar

OTHER = "other"
"""The label of all names together that aren't told. What is called so is never told by its name."""
Value = TypeVar("Value")


def choose(told: Collection[str], ranks: Mapping[str, float], most: int) -> list[str]:
    """The names to tell, `most` at most: of those that are `told` all that are still there, then those that rank
    highest, of equals the first by name. `ranks`: of all that are there."""
    kept = [name for name in told if name in ranks][:most]
    known = {*kept, OTHER}
    new = [(-rank, name) for name, rank in ranks.items() if name not in known]
    return kept + [name for _, name in nsmallest(most - len(kept), new)]


class Told(NamedTuple, Generic[Value]):
    """What is told: by name, and of all others together; `others`: how many these are."""

    by_name: dict[str, Value]
    other: Value
    others: int


class NamedCounts:
    """Counts by name, `size` numbers of each, `most` names told at most. What was counted between the last time that
    it was told and the end of a name is lost."""

    def __init__(self, size: int, most: int) -> None:
        self._most = most
        self._nothing = [0.0] * size
        self._last: dict[str, list[float]] = {}
        self._told: dict[str, list[float]] = {}
        self._other = list(self._nothing)

    def tell(self, counts: dict[str, list[float]], ranks: Mapping[str, float]) -> Told[list[float]]:
        """What is to be told now. `counts`, of all names that are there, is kept; one that falls began anew."""
        names = choose(self._told, ranks, self._most)
        self._told = {name: self._told.get(name, self._nothing) for name in names}
        for name, now in counts.items():
            last = self._last.get(name, self._nothing)
            if now == last:
                continue
            if any(new < old for new, old in zip(now, last, strict=True)):
                last = self._nothing
            if name in self._told:
                self._told[name] = _grown(self._told[name], now, last)
            else:
                self._other = _grown(self._other, now, last)
        self._last = counts
        return Told(dict(self._told), self._other, len(counts) - len(names))


def _grown(told: list[float], now: list[float], last: list[float]) -> list[float]:
    return [each + new - old for each, new, old in zip(told, now, last, strict=True)]
