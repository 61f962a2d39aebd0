"""Which queue a message goes to by what it says itself."""

from __future__ import annotations

from typing import cast

from lakemq.client.outgoing import MessageFields
from lakemq.model.errors import QueueNotFound
from lakemq.model.hashing import queue_of_ordering_key
from lakemq.model.message_columns import GIVEN, Kind
from lakemq.model.message_queue import MessageQueue

CHOOSING = frozenset({"ordering_key", "queue_id"})
"""The fields by which a message chooses its queue, and so its broker."""
_TEXTS = frozenset(column.name for column in GIVEN if column.kind is Kind.TEXT)


def chooses(fields: MessageFields) -> bool:
    """Whether the message itself chooses its queue."""
    return not fields.keys().isdisjoint(CHOOSING)


def queue_of(queues: list[MessageQueue], fields: MessageFields) -> MessageQueue | None:
    """The queue that a message's queue id or ordering key chooses; None while the topic has none.

    With several brokers a key is spread over all queues, sorted, and a queue id means the first
    broker's that has it. Raises `QueueNotFound`.
    """
    if not queues:
        return None
    queue_id = fields.get("queue_id")
    if queue_id is not None:
        found = next((queue for queue in queues if queue.queue_id == queue_id), None)
        if found is None:
            raise QueueNotFound(f"topic {queues[0].topic!r} has no queue {queue_id}")
        return found
    ordering_key = fields.get("ordering_key")
    assert ordering_key is not None
    return queues[queue_of_ordering_key(ordering_key, len(queues))]


def extra_bytes(fields: MessageFields) -> int:
    """About what a message's fields take in memory. Raises `TypeError` for what no field may be."""
    size = 0
    for name in _TEXTS.intersection(fields):
        size += len(cast("str", fields.get(name)) or "")
    keys = fields.get("keys")
    if keys is not None:
        size += sum(map(len, keys)) + 8 * len(keys)
    properties = fields.get("properties")
    if properties:
        size += sum(len(name) + len(value) + 16 for name, value in properties.items())
    return size
