"""How often something took how long, or was how large, in buckets whose bounds are given: what Prometheus calls a
histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

DURATION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Of requests, sends and flushes: OpenTelemetry's for HTTP, and finer below."""


class Histogram:
    """Counts by bucket. `counts[i]`: how many were above `bounds[i - 1]` and at most `bounds[i]`, in the last one above
    all; `total`: the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = DURATION_BOUNDS_S) -> None:
        """`bounds` ascend."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """How many were at most so much, by bound, as Prometheus counts."""
        return buckets_of(self.bounds, self.counts)


def buckets_of(bounds: Sequence[float], counts: Sequence[float]) -> list[tuple[str, float]]:
    """As `Histogram.buckets`, of the counts of each bucket."""
    found: list[tuple[str, float]] = []
    count = 0.0
    for bound, each in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        count += each
        found.append((bound, count))
    return found
