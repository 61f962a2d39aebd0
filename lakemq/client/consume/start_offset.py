"""Where a queue begins for a group that has no offset of it."""

from __future__ import annotations

from datetime import datetime

from lakemq.client.consume.fetch import bounds_of_topic, offset_at
from lakemq.client.consume.subscription import ConsumeFrom, to_ms
from lakemq.client.routes import Cluster
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import RETRY_PREFIX


class Beginnings:
    """`absent`: brokers and topics that were not there when the client subscribed: all messages of these
    came later."""

    def __init__(self, cluster: Cluster, consume_from: ConsumeFrom) -> None:
        self._cluster = cluster
        self._consume_from: ConsumeFrom = consume_from
        self.absent: set[tuple[str, str]] = set()

    async def of(self, broker: str, topic: str, known: bool) -> dict[MessageQueue, int]:
        """Of each of the topic's queues at the broker.

        `known`: the group has consumed from the topic already, so a queue without an offset is one that
        was added since, and begins with its first message. So does the retry topic, always.
        """
        bounds = await bounds_of_topic(self._cluster, broker, topic)
        first = known or self._consume_from == "first" or (broker, topic) in self.absent
        if first or topic.startswith(RETRY_PREFIX):
            return {queue: each.begin for queue, each in bounds.items()}
        if not isinstance(self._consume_from, datetime):
            return {queue: each.end for queue, each in bounds.items()}
        timestamp_ms = to_ms(self._consume_from)
        return {queue: await offset_at(self._cluster, queue, timestamp_ms) for queue in bounds}
