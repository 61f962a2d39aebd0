"""One message on its way in, and where it was put."""

from __future__ import annotations

from typing import NamedTuple


class Draft(NamedTuple):
    """One message as a producer wrote it, checked but not yet placed in a queue.

    `queue_id` pins a queue; without it `ordering_key` hashes to one. Times are ms since the
    epoch; `born_time_ms` None means: when it was stored.
    """

    body: bytes
    tag: str | None = None
    keys: list[str] | None = None
    properties: dict[str, str] | None = None
    ordering_key: str | None = None
    queue_id: int | None = None
    born_time_ms: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    priority: int | None = None


class Placed(NamedTuple):
    """Where one message was stored. `position` counts the broker's messages, from 0."""

    queue_id: int
    queue_offset: int
    position: int
