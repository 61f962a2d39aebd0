"""Messages whose time to live is over: whoever reads a queue to consume it passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakemq.gateway.work.counters import Counters
from lakemq.gateway.work.slices import Part, stretches
from lakemq.model.columns import STORED_BIT
from lakemq.model.expiry import expires_ms
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.topics import Queue, TopicTable

_TTL = 1 << STORED_BIT["ttl_ms"]


class Expiry(NamedTuple):
    """What has expired of a queue's messages, at a time. `topic_ttl_ms`: of messages that say none."""

    topic_ttl_ms: int
    now_ms: int

    def split(self, parts: list[Part]) -> tuple[list[Part], list[Part]]:
        """What of the slices is to be delivered, and what has expired. For any thread; where no message can expire
        that is one look at each slice's frame, and no message is looked at."""
        if not self.looks_at(parts):
            return parts, []
        alive: list[Part] = []
        expired: list[Part] = []
        for part in parts:
            over = self._over(part)
            if True not in over:
                alive.append(part)
            else:
                alive += stretches(part, [not each for each in over])
                expired += stretches(part, over)
        return alive, expired

    def looks_at(self, parts: Sequence[Slice | ColdSlice]) -> bool:
        """Whether each message of the slices has to be looked at: every second one may have expired, and the others are
        as many slices then."""
        return self.topic_ttl_ms > 0 or any(_says_ttl(part) for part in parts)

    def _over(self, part: Slice | ColdSlice) -> list[bool]:
        """Of each row whether it has expired."""
        if isinstance(part, ColdSlice):
            rows = part.batch
            ttls, stored = rows.column("ttl_ms").to_pylist(), rows.column("store_time_ms").to_pylist()
            return [self._is_over(at, ttl) for at, ttl in zip(stored, ttls, strict=True)]
        at = part.frame.meta.store_time_ms
        if not _says_ttl(part):
            return [self._is_over(at, None)] * part.count
        return [self._is_over(at, ttl) for ttl in part.frame.content.values("ttl_ms", part.row, part.count)]

    def _is_over(self, store_time_ms: int, ttl_ms: int | None) -> bool:
        expires = expires_ms(store_time_ms, ttl_ms, self.topic_ttl_ms)
        return expires is not None and expires <= self.now_ms


def _says_ttl(part: Slice | ColdSlice) -> bool:
    """Whether one of the slice's messages may say itself how long it lives."""
    columns = part.frame.meta.columns
    if columns:
        return columns & _TTL != 0
    # Of what was read from the lake the header says nothing.
    rows = part.frame.batch
    return "ttl_ms" in rows.schema.names and rows.column("ttl_ms").null_count < rows.num_rows


def expiry_of(topics: TopicTable, queue: Queue, now_ms: int) -> Expiry:
    """What has expired of that queue by then."""
    topic = topics.find(queue.topic)
    return Expiry(0 if topic is None else topic.config.ttl_ms, now_ms)


def count_expired(topics: TopicTable, queue: Queue, counters: Counters, count: int) -> None:
    """Somebody has passed over so many of the queue's messages."""
    counters.messages_expired += count
    topic = topics.find(queue.topic)
    if topic is not None:
        topic.expired += count
