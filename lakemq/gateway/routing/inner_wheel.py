"""Which scheduled messages are due within the lead, by millisecond."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


class InnerWheel:
    """Causes by due time. A cause may be in it several times: who takes it looks whether it is still
    pending. Bounded by what is decided, and by what comes in that is due within the lead."""

    def __init__(self) -> None:
        self._causes: dict[int, list[int]] = {}
        self._dues: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._causes.values()))

    def add(self, due_ms: int, causes: Iterable[int]) -> None:
        """Hold the causes until `due_ms`."""
        held = self._causes.get(due_ms)
        if held is None:
            held = self._causes[due_ms] = []
            heapq.heappush(self._dues, due_ms)
        held.extend(causes)

    def next_due(self) -> int | None:
        """The earliest due time in ms, or None."""
        return self._dues[0] if self._dues else None

    def take_due(self, now_ms: int, count_max: int) -> list[int]:
        """Up to `count_max` causes that are due at `now_ms`, earliest first."""
        taken: list[int] = []
        while self._dues and self._dues[0] <= now_ms and len(taken) < count_max:
            due = self._dues[0]
            causes = self._causes[due]
            room = count_max - len(taken)
            taken += causes[:room]
            if len(causes) > room:
                del causes[:room]
            else:
                del self._causes[due]
                heapq.heappop(self._dues)
        return taken
