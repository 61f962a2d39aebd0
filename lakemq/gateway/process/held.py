"""Requests that are held while nobody serves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from lakemq.model.network import network_of


class Held:
    """So many at most, and so many of one client, by its network: who asks isn't known yet, and nobody is to have all
    the places."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._count = 0
        self._of: Counter[str | None] = Counter()

    def has_room(self, address: str | None) -> bool:
        """Whether one more of that client's may be held."""
        return self._count < self._most and self._of[network_of(address)] < self._most_of_one

    @contextmanager
    def place(self, address: str | None) -> Generator[None]:
        """Hold one."""
        client = network_of(address)
        self._count += 1
        self._of[client] += 1
        try:
            yield
        finally:
            self._count -= 1
            self._of[client] -= 1
            if not self._of[client]:
                del self._of[client]
