"""When the disk will be full, if it goes on like this."""

from __future__ import annotations

from lakemq.model.written import duration, share

WINDOW_S = 300.0
"""Growth is that of about so long a time."""


class DiskOutlook:
    """Growth of what is on the disk, from looks at how much is free, smoothed. Times are seconds of a clock that
    nobody sets."""

    def __init__(self) -> None:
        self._looked_s: float | None = None
        self._free_bytes = 0
        self._bytes_per_s = 0.0

    def look(self, free_bytes: int, now_s: float) -> None:
        """So much is free now."""
        if self._looked_s is not None and now_s > self._looked_s:
            elapsed_s = now_s - self._looked_s
            weight = min(elapsed_s / WINDOW_S, 1.0)
            grown = (self._free_bytes - free_bytes) / elapsed_s
            self._bytes_per_s += weight * (grown - self._bytes_per_s)
        self._looked_s, self._free_bytes = now_s, free_bytes

    def full_in_s(self, kept_free_bytes: int) -> float | None:
        """Seconds until no more than so much is free; None: it doesn't get fuller."""
        left = self._free_bytes - kept_free_bytes
        if self._looked_s is None or (self._bytes_per_s <= 0 and left > 0):
            return None
        return 0.0 if left <= 0 else left / self._bytes_per_s


def fills_up(free_bytes: int, total_bytes: int, full_in_s: float | None) -> str:
    """What a broker says of such a disk."""
    when = "" if full_in_s is None else f", and full in {duration(full_in_s)} at this pace"
    return f"the disk fills up: {share(1 - free_bytes / max(total_bytes, 1))} are used{when}"
