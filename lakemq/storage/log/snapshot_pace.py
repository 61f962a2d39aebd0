"""When the index of the segment that is written is to be saved."""

from __future__ import annotations

from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock


class SnapshotPace:
    """Counts what was written since the last one."""

    def __init__(self, settings: Storage, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._bytes = 0
        self._ms = 0

    def begin(self, size: int) -> None:
        """The segment has so many bytes, and its index is on disk, or of no use yet."""
        self._bytes, self._ms = size, self._clock.now_ms()

    def due(self, size: int) -> bool:
        """Whether to save it now that the segment has so many bytes; if so, it counts as saved."""
        far = size - self._bytes >= self._settings.snapshot_bytes
        if not far and self._clock.now_ms() - self._ms < self._settings.snapshot_interval_ms:
            return False
        self.begin(size)
        return True
