"""Several ordered streams as one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any, TypeVar

Item = TypeVar("Item")


async def in_order(streams: Sequence[AsyncIterator[Item]], key: Callable[[Item], Any]) -> AsyncIterator[Item]:
    """All items, the one with the least key next. Each stream is so ordered itself, and is asked for one item ahead."""
    heads: list[tuple[Any, int, Item]] = []
    for number, stream in enumerate(streams):
        async for item in stream:
            heads.append((key(item), number, item))
            break
    heapify(heads)
    while heads:
        _, number, item = heads[0]
        yield item
        async for following in streams[number]:
            heapreplace(heads, (key(following), number, following))
            break
        else:
            heappop(heads)
