"""Which broker to send to: one that failed or was slow is avoided for a while.

The rule and its table are RocketMQ's (`MQFaultStrategy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

TABLE_MS: tuple[tuple[int, int], ...] = (
    (15_000, 600_000),
    (3_000, 180_000),
    (2_000, 120_000),
    (1_000, 60_000),
    (550, 30_000),
)
"""(at least so slow, avoided for so long), slowest first; what is faster is not avoided."""
FAILED_MS = 10_000
"""A failure counts as an answer that took so long."""


def avoid_ms(latency_ms: float) -> int:
    """How long a broker is avoided whose answer took so long."""
    for least_ms, avoided_ms in TABLE_MS:
        if latency_ms >= least_ms:
            return avoided_ms
    return 0


class _Noted(NamedTuple):
    latency_ms: float
    until_ms: float


class LatencyTable:
    """How brokers did lately, and so which is next. Times are ms of any one clock that never goes
    back. Entries are as many as there are brokers."""

    def __init__(self) -> None:
        self._noted: dict[str, _Noted] = {}
        self._turn = 0

    def note(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """A broker answered in so many ms."""
        self._noted[broker] = _Noted(latency_ms, now_ms + avoid_ms(latency_ms))

    def note_failure(self, broker: str, now_ms: float) -> None:
        """A broker gave no answer, or one that says that it can't serve now."""
        self.note(broker, FAILED_MS, now_ms)

    def forgive(self, broker: str) -> None:
        """The broker was away and is back: what it did before says nothing."""
        self._noted.pop(broker, None)

    def is_avoided(self, broker: str, now_ms: float) -> bool:
        """Whether the broker is avoided at this time."""
        noted = self._noted.get(broker)
        return noted is not None and now_ms < noted.until_ms

    def pick(self, brokers: Sequence[str], now_ms: float) -> str:
        """The next in turn of those that aren't avoided; when all are, the least bad: the one that is
        free soonest, of several the fastest. `brokers` is not empty."""
        self._turn += 1
        free = [broker for broker in brokers if not self.is_avoided(broker, now_ms)]
        if free:
            return free[self._turn % len(free)]
        return min(brokers, key=lambda broker: (self._noted[broker].until_ms, self._noted[broker].latency_ms))
