"""Time to live: how long after it was stored a message is delivered.

It counts from the store time of what consumers read. So that of a delayed message counts from when it was due, and
that of a transaction's from the commit. A copy for a retry gets what is left of it (`left_ms`), a dead letter has none.
"""

from __future__ import annotations


def expires_ms(store_time_ms: int, ttl_ms: int | None, topic_ttl_ms: int) -> int | None:
    """When a message expires; None: never. `ttl_ms` is what it says itself, else its topic's counts; 0: no limit."""
    ttl = ttl_ms or topic_ttl_ms
    return store_time_ms + ttl if ttl else None


def left_ms(expires: int | None, stored_ms: int) -> int | None:
    """The `ttl_ms` of a copy that is stored then; None: it has none. 0: the message has expired by then, and there is
    to be no copy."""
    return None if expires is None else max(expires - stored_ms, 0)
