"""Letting old segments go, however many, without holding anybody up: a log's clean-up may find thousands at once, as
when the lake has caught up, and each takes some milliseconds of its loop."""

from __future__ import annotations

import asyncio

from lakemq.storage.log.commit_log import CommitLog


async def let_go(log: CommitLog) -> int:
    """`CommitLog.retain`, in which all others have their turns between one segment and the next. Raises `OSError`."""
    removed = 0
    try:
        while log.retain(1):
            removed += 1
            await asyncio.sleep(0)
    finally:
        log.routing.tidy(log.min_position)
    return removed
