"""What kinds of schemas there are, and how many messages one is inferred of: for who sets one, and parses none."""

from __future__ import annotations

JSON_SCHEMA, AVRO, PROTOBUF = "json", "avro", "protobuf"
TYPES = (JSON_SCHEMA, AVRO, PROTOBUF)
BODIES_MAX = 10_000
"""So many messages a schema is inferred of, at most."""


def last_of_each(queues: int, messages_max: int) -> int:
    """So many of each queue's newest messages, where it is inferred of so many of a topic."""
    return max(messages_max // max(queues, 1), 1)
