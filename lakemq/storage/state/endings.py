"""Where the queues of deleted topics ended: a topic that is made again goes on with its offsets, so no
(topic, queue, offset) ever means two messages.

Topics may be made and deleted without end, so only of the last ones this is known queue by queue. Of those that are
forgotten, each bucket of names keeps the highest offset. A new topic whose name falls into such a bucket begins
with that offset instead of 0: so it shows nothing of one that was forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any
from zlib import crc32

QUEUES_MAX = 10_000
"""Queues of deleted topics that are known one by one. What is forgotten is part of the log's state: with another
number the same log would make another state."""
BUCKETS = 4_096


class Endings:
    """The next offsets of queues that are no more, by the name of their topic. A topic may be there again."""

    def __init__(self) -> None:
        self.least = 0
        """Any queue begins here: one of its name may have been lost, with all its messages."""
        self._known: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._forgotten: dict[int, int] = {}
        self._queues = 0

    def begin(self, topic: str, queue_id: int) -> int:
        """The offset that a new queue begins with: none of this name was given as high a one."""
        ends = self._known.get(topic, ())
        return max(self._base(topic), ends[queue_id] if queue_id < len(ends) else 0)

    def _base(self, topic: str) -> int:
        return max(self.least, self._forgotten.get(_bucket(topic), 0))

    def add(self, topic: str, next_offsets: Sequence[int]) -> None:
        """The topic was deleted; its queues, by id, would have gone on there."""
        before = self._take(topic)
        ends = [max(pair) for pair in zip_longest(before, next_offsets, fillvalue=0)]
        base = self._base(topic)
        while ends and ends[-1] <= base:  # nothing was stored in it: any queue of the name begins there
            ends.pop()
        if ends:
            self._known[topic] = tuple(ends)
            self._queues += len(ends)
        while self._queues > QUEUES_MAX:
            self._forget(next(iter(self._known)))

    def _take(self, topic: str) -> tuple[int, ...]:
        ends = self._known.pop(topic, ())
        self._queues -= len(ends)
        return ends

    def _forget(self, topic: str) -> None:
        bucket = _bucket(topic)
        self._forgotten[bucket] = max(self._forgotten.get(bucket, 0), *self._take(topic))

    def pass_over(self, count: int) -> None:
        """Every queue begins `count` offsets later: so many messages may be lost."""
        self.least += count
        for topic, ends in self._known.items():
            self._known[topic] = tuple([end + count for end in ends])
        for bucket in self._forgotten:
            self._forgotten[bucket] += count

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"least": self.least, "known": dict(self._known), "forgotten": list(self._forgotten.items())}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said."""
        self.least = dumped["least"]
        self._known = OrderedDict((topic, tuple(ends)) for topic, ends in dumped["known"].items())
        self._forgotten = dict(dumped["forgotten"])
        self._queues = sum(map(len, self._known.values()))


def _bucket(topic: str) -> int:
    return crc32(topic.encode()) % BUCKETS
