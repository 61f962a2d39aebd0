"""Which files of `messages` a topic's own table reads next: in bounded steps, by what is known of each file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ROWS_MAX = 200_000
BYTES_MAX = 128 * 1024 * 1024
"""A step reads so much, or one file where that is more."""


class Range(NamedTuple):
    """Of a broker's messages those from position `low` on, below `high`."""

    broker: str
    low: int
    high: int


class Bounds(NamedTuple):
    """What is known of a file: its rows and bytes, and the least and the greatest that is in it, of texts maybe a
    beginning that is not above the least, or something that is not below the greatest. None: it isn't known."""

    path: str
    rows: int
    size: int
    positions: tuple[int, int] | None
    topics: tuple[str, str] | None
    brokers: tuple[str, str] | None

    def may_have(self, topic: str, wanted: Range) -> bool:
        """Whether it may have messages of the topic within that range."""
        if self.topics is not None and not self.topics[0] <= topic <= self.topics[1]:
            return False
        if self.brokers is not None and not self.brokers[0] <= wanted.broker <= self.brokers[1]:
            return False
        return self.positions is None or (self.positions[0] < wanted.high and self.positions[1] >= wanted.low)


class Step(NamedTuple):
    """`files` have all messages of the topic that are within `range`."""

    range: Range
    files: tuple[str, ...]


def next_step(files: Iterable[Bounds], topic: str, wanted: Range) -> Step:
    """As much of the range as a step reads, from its beginning on. It gets on at least by what only the first file has:
    files whose positions overlap are read together."""
    found = [each for each in files if each.may_have(topic, wanted)]
    found.sort(key=_first)
    rows = size = 0
    taken: list[str] = []
    for each in found:
        first = _first(each)
        if taken and first > wanted.low and (rows + each.rows > ROWS_MAX or size + each.size > BYTES_MAX):
            return Step(wanted._replace(high=first), tuple(taken))
        taken.append(each.path)
        rows, size = rows + each.rows, size + each.size
    return Step(wanted, tuple(taken))


def _first(file: Bounds) -> int:
    return -1 if file.positions is None else file.positions[0]
