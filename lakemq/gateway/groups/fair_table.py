"""A table of so many things at most, in which nobody's give way while somebody else has more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

O = TypeVar("O", bound=Hashable)  # noqa: E741  an owner
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FairTable(Generic[O, K, V]):
    """Values by key, each of an owner, who put it last. When there are too many, the owner of most loses the one that
    was put longest ago: so who puts as many as he can takes no room that others need. Each call takes a few steps,
    however many there are."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._owned: OrderedDict[K, tuple[O, V]] = OrderedDict()
        self._of: dict[O, OrderedDict[K, None]] = {}
        self._by_count: dict[int, dict[O, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._owned)

    def get(self, key: K) -> V | None:
        """The value, or None."""
        found = self._owned.get(key)
        return None if found is None else found[1]

    def put(self, owner: O, key: K, value: V) -> V | None:
        """Keep it, in the place of what was there; returns what gave way, if anything did."""
        self.pop(key)
        self._owned[key] = owner, value
        self._count(owner, 1)
        self._of.setdefault(owner, OrderedDict())[key] = None
        if len(self._owned) <= self._values_max:
            return None
        richest = next(iter(self._by_count[self._most]))
        return self.pop(next(iter(self._of[richest])))

    def pop(self, key: K) -> V | None:
        """Keep it no more; returns it."""
        found = self._owned.pop(key, None)
        if found is None:
            return None
        owner, value = found
        self._count(owner, -1)
        own = self._of[owner]
        del own[key]
        if not own:
            del self._of[owner]
        return value

    def oldest(self) -> tuple[K, V] | None:
        """The one that was put longest ago."""
        for key, (_, value) in self._owned.items():
            return key, value
        return None

    def items(self) -> Iterator[tuple[K, V]]:
        """All as of now, those first that were put longest ago."""
        return iter([(key, value) for key, (_, value) in self._owned.items()])

    def values(self) -> Iterator[V]:
        """The same without their keys."""
        return iter([value for _, value in self._owned.values()])

    def _count(self, owner: O, change: int) -> None:
        count = len(self._of.get(owner, ()))
        if count:
            alike = self._by_count[count]
            del alike[owner]
            if not alike:
                del self._by_count[count]
        if count + change:
            self._by_count.setdefault(count + change, {})[owner] = None
        if change > 0:
            self._most = max(self._most, count + 1)
        elif count == self._most and count not in self._by_count:
            self._most = count - 1
