"""Stable hashes: the same in every process and in Spark SQL (`crc32`)."""

from __future__ import annotations

from zlib import crc32


def queue_of_ordering_key(ordering_key: str, queues: int) -> int:
    """The queue, 0 ≤ id < `queues`, that all messages of `ordering_key` go to."""
    return crc32(ordering_key.encode()) % queues


def tag_hash(tag: str | None) -> int:
    """The hash of a tag in the ConsumeQueue; 0 for none."""
    return crc32(tag.encode()) if tag else 0
