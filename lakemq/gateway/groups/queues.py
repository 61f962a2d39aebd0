"""The queues that a request names, of which there may be thousands."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.gateway.http.in_slices import Pause
from lakemq.model.names import check_readable
from lakemq.storage.state.group_state import QueueKey
from lakemq.storage.state.topics import Queue, TopicTable


async def queues_of(topics: TopicTable, keys: Sequence[QueueKey]) -> list[Queue]:
    """These queues, all of which are there on return; others go on meanwhile. Raises `InvalidTopic`, `TopicNotFound`,
    `QueueNotFound`."""
    while True:
        pause, found = Pause(), list[Queue]()
        for topic, queue_id in keys:
            found.append(topics.queue(check_readable(topic), queue_id))
            await pause()
        # Else one was deleted meanwhile: who looks again is told.
        if not topics.deleted or topics.deleted.isdisjoint(found):
            return found
