"""Where a queue begins for a group that has no offset of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lakemq.client.consume.fetch import bounds_of_topic, offset_at
from lakemq.client.consume.subscription import ConsumeFrom, to_ms
from lakemq.client.routes import Cluster
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import RETRY_PREFIX

ALWAYS = 0
"""Since when a group has consumed a topic that has offsets of it, but of which nobody knows since when."""
CLOCKS_DIFFER_MS = 10_000
"""The clocks of two brokers may differ by so much: what one stored so long before the group began at the other is
consumed too, so that nothing is skipped that it stored after."""


class Beginnings:
    """`absent`: brokers and topics that were not there when the client subscribed: all messages of these
    came later."""

    def __init__(self, cluster: Cluster, consume_from: ConsumeFrom) -> None:
        self._cluster = cluster
        self._consume_from: ConsumeFrom = consume_from
        self.absent: set[tuple[str, str]] = set()

    def need_age(self, topic: str) -> bool:
        """Whether it matters where the group has consumed from the topic already."""
        return self._consume_from == "last" and not topic.startswith(RETRY_PREFIX)

    async def of(self, broker: str, topic: str, since_ms: int | None) -> dict[MessageQueue, int]:
        """Of each of the topic's queues at the broker.

        `since_ms`: when the group began to consume from the topic, at this broker or another; None: it does so now. A
        queue without an offset was added since, or could not be asked for then. So all that was stored since belongs to
        the group: `ALWAYS`, all there is. The retry topic begins with its first message, always.
        """
        bounds = await bounds_of_topic(self._cluster, broker, topic)
        first = since_ms == ALWAYS or self._consume_from == "first" or topic.startswith(RETRY_PREFIX)
        if not first and since_ms is not None and self._consume_from == "last":
            return await self._by_time(bounds, max(since_ms - CLOCKS_DIFFER_MS, 0))
        if first or (broker, topic) in self.absent:
            return {queue: each.begin for queue, each in bounds.items()}
        if isinstance(self._consume_from, datetime):
            return await self._by_time(bounds, to_ms(self._consume_from))
        return {queue: each.end for queue, each in bounds.items()}

    async def _by_time(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        return {queue: await offset_at(self._cluster, queue, timestamp_ms) for queue in queues}
