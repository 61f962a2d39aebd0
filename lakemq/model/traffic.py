"""What goes through a topic, as plain numbers: the hot path only adds to them."""

from __future__ import annotations

from bisect import bisect_left

from lakemq.model.histogram import DURATION_BOUNDS_S, Histogram

COUNTS = 4
"""So many numbers of `Traffic.numbers` stand before those of the sends."""
NUMBERS = COUNTS + len(DURATION_BOUNDS_S) + 2
"""And so many there are."""


class Traffic:
    """Totals since the process began. Bytes are of bodies that came, and of answers to pulls; `send_counts` and
    `send_s`: how long requests that brought messages took, as `Histogram` counts."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "messages_out", "send_counts", "send_s")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.messages_out = self.bytes_out = 0
        self.send_counts = [0] * (len(DURATION_BOUNDS_S) + 1)
        self.send_s = 0.0

    def sent(self, took_s: float) -> None:
        """A request that brought messages took so long until it was answered."""
        self.send_counts[bisect_left(DURATION_BOUNDS_S, took_s)] += 1
        self.send_s += took_s

    def took_one(self, size: int, took_s: float, also: Histogram) -> None:
        """A request came with one message, whose body has so many bytes, and was answered after so long: it is
        counted, `sent`, and noted in another histogram with the bounds of this."""
        bucket = bisect_left(DURATION_BOUNDS_S, took_s)
        self.messages_in += 1
        self.bytes_in += size
        self.send_counts[bucket] += 1
        self.send_s += took_s
        also.counts[bucket] += 1
        also.total += took_s

    @property
    def messages(self) -> int:
        """Those that came and those that went."""
        return self.messages_in + self.messages_out

    def numbers(self) -> list[float]:
        """All of it: messages and bytes in, messages and bytes out, the sends by bucket, and their seconds."""
        return [self.messages_in, self.bytes_in, self.messages_out, self.bytes_out, *self.send_counts, self.send_s]
