"""Who waits for something to happen to what has a name: a future for each, until it is done or given up."""

from __future__ import annotations

import asyncio

Future = asyncio.Future[None]


class Watchers:
    """Futures by name. Nothing is kept of a name for which nobody waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Future]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def of(self, name: str) -> Place:
        """Where those who wait for it leave their futures."""
        return Place(self._waiting, name)

    def wake(self, name: str) -> None:
        """It has happened."""
        for future in self._waiting.pop(name, ()):
            if not future.done():
                future.set_result(None)


class Place:
    """Those of one name."""

    __slots__ = ("_name", "_waiting")

    def __init__(self, waiting: dict[str, set[Future]], name: str) -> None:
        self._waiting = waiting
        self._name = name

    def add(self, future: Future) -> None:
        """Wait with it."""
        self._waiting.setdefault(self._name, set()).add(future)

    def discard(self, future: Future) -> None:
        """Wait with it no more."""
        waiting = self._waiting.get(self._name)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[self._name]
