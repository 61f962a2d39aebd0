"""A search of all topics by key, as the command line and the console do it: where it ends, which messages it keeps, and
what it says that it left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

TOPICS_MAX = 1_000
"""It stops after so many of a broker."""

T = TypeVar("T")


class AllTopics(Generic[T]):
    """What a search has found so far: of its `messages` the newest `count_max`, the newest first, by `stored_ms`.
    `complete`: each topic was searched as far as it goes."""

    def __init__(self, count_max: int, stored_ms: Callable[[T], int]) -> None:
        self.messages: list[T] = []
        self.complete = True
        self._count_max, self._stored_ms = count_max, stored_ms
        self._searched, self._refused = 0, 0
        self._stops: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether no further topic is to be searched."""
        return self._searched + self._refused >= TOPICS_MAX

    def take(self, messages: Iterable[T], complete: bool) -> None:
        """What one more topic has."""
        self._searched += 1
        self.complete = self.complete and complete
        self.messages = newest([*self.messages, *messages], self._count_max, self._stored_ms)

    def refuse(self, topics: int = 1) -> None:
        """So many more topics are not this user's to read."""
        self._refused += topics

    def stop(self, after: str = "", before: str = "") -> None:
        """It ends before its time: `after` so long, or by default so many topics; `before` this topic, if that is
        known."""
        where = f", before {before}" if before else ""
        self._stops.append(f"the search stopped after {after or f'{TOPICS_MAX:,} topics'}{where}")

    def notes(self, who: str) -> tuple[str, ...]:
        """What was not searched; `who`: whom the user is called."""
        stops = [f"{each}: name a topic to search it" for each in self._stops]
        were = "topic was" if self._refused == 1 else "topics were"
        refused = f"{self._refused:,} {were} not searched: {who} may not read them"
        return (*stops, refused) if self._refused else tuple(stops)


def newest(messages: Iterable[T], count_max: int, stored_ms: Callable[[T], int]) -> list[T]:
    """So many of them, newest first."""
    return sorted(messages, key=stored_ms, reverse=True)[:count_max]
