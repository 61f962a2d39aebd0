"""How often others have their turn on an event loop while something is done there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def turns_of(work: Awaitable[T]) -> tuple[T, int]:
    """What the work returns, and how many turns others had before."""
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(go_on())
    try:
        return await work, turns
    finally:
        others.cancel()
