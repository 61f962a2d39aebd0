"""How many timers are due in which minute: enough to know when to look for them."""

from __future__ import annotations

import heapq

from lakemq.storage.state.bitmaps import pack_numbers, unpack_numbers

BUCKET_MS = 60_000
SLACK = 64


class TimerCounts:
    """Counts of timers by `BUCKET_MS`; a year of them has half a million buckets at most."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        # Every bucket that has a count, and some that had one.
        self._heap: list[int] = []

    def add(self, due_ms: int) -> None:
        """One more timer at `due_ms`."""
        bucket = due_ms // BUCKET_MS
        count = self._counts.get(bucket, 0)
        self._counts[bucket] = count + 1
        if count:
            return
        if len(self._heap) > 2 * len(self._counts) + SLACK:  # its last timer left and another came, again and again
            self._heap = sorted(self._counts)
        else:
            heapq.heappush(self._heap, bucket)

    def remove(self, due_ms: int) -> None:
        """One timer at `due_ms` less."""
        bucket = due_ms // BUCKET_MS
        count = self._counts.get(bucket, 0)
        if count > 1:
            self._counts[bucket] = count - 1
        elif count:
            del self._counts[bucket]

    def earliest(self) -> int | None:
        """The begin in ms of the first bucket that has a timer; None when there is none."""
        while self._heap and self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return self._heap[0] * BUCKET_MS if self._heap else None

    def copy(self) -> TimerCounts:
        """The counts as they are now, to be dumped."""
        copied = TimerCounts()
        copied._counts = self._counts.copy()
        return copied

    def dump(self) -> list[str]:
        """All of it as JSON values: the buckets, and their counts."""
        return [pack_numbers(self._counts), pack_numbers(self._counts.values())]

    def restore(self, dumped: list[str]) -> None:
        """Become what `dump` said."""
        buckets, counts = map(unpack_numbers, dumped)
        self._counts = dict(zip(buckets, counts, strict=True))
        self._heap = sorted(self._counts)
