"""Which segments may leave the log."""

from __future__ import annotations

from lakemq.settings import Storage
from lakemq.storage.clock import Clock
from lakemq.storage.routing_state import RoutingState
from lakemq.storage.segment import Segment


class Retention:
    """Says of the oldest segment whether it may go: it is compacted, and past `retention_ms` or the
    disk is nearly full; and nothing in it waits to be routed."""

    def __init__(self, settings: Storage, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def is_over(self, segments: list[Segment], compacted_position: int, free_bytes: int, total_bytes: int) -> bool:
        """Whether the time of the first segment is over. The one that is written stays."""
        if len(segments) < 2 or segments[0].end_position > compacted_position:
            return False
        crowded = total_bytes - free_bytes > total_bytes * self._settings.disk_high_ratio
        return crowded or segments[0].last_store_time_ms < self._clock.now_ms() - self._settings.retention_ms

    @staticmethod
    def is_pinned(routing: RoutingState, end: int) -> bool:
        """Whether something below position `end` must stay there."""
        return routing.pinned_position(end) < end

    @staticmethod
    def has_delays(routing: RoutingState, end: int) -> bool:
        """Whether scheduled messages wait below position `end`: they may move on."""
        return routing.begin_position(routing.delays, end) < end
