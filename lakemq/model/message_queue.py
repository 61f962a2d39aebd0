"""A queue of a topic at one broker: what is produced to, and assigned to one consumer of a group."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """`broker` is the broker's name, `queue_id` counts from 0 in each broker. Sorts by its fields."""

    topic: str
    broker: str
    queue_id: int
