"""How late the event loop comes round: what each request waits for before anything of its own is done."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class LoopLag:
    """A histogram of how much later than planned something woke on the loop."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def note(self, late_s: float) -> None:
        """Something woke so much later than it had planned; below 0: in time."""
        late_s = max(late_s, 0.0)
        self._counts[bisect_left(BOUNDS_S, late_s)] += 1
        self.total_s += late_s

    def buckets(self) -> list[tuple[str, float]]:
        """How often it was at most so late, by bound in seconds, as Prometheus counts."""
        found: list[tuple[str, float]] = []
        count = 0
        for bound, each in zip((*map(str, BOUNDS_S), "+Inf"), self._counts, strict=True):
            count += each
            found.append((bound, count))
        return found
