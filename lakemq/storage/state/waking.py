"""Waking those who wait on the event loop for something of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


def wake_all(waiters: Iterable[asyncio.Future[None]]) -> None:
    """Tell each, unless it is told, or has gone, already."""
    for future in waiters:
        if not future.done():
            future.set_result(None)
