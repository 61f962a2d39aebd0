"""Receives of brokers that take their time: they hold up no other, and what they answer is handed out when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, NamedTuple

from lakemq.client.errors import Unreachable
from lakemq.client.view import MessageView

Ask = Callable[[], Awaitable[list[MessageView]]]
Key = tuple[str, tuple[tuple[str, Any], ...]]
"""A broker, and what is wanted of it."""


class _Answer(NamedTuple):
    """`until_s`: then its messages are handed out to others."""

    messages: list[MessageView]
    until_s: float


class LateReceives:
    """Those of one consumer. A request that is under way is never given up for another: the broker would have handed
    out what nobody gets, and count it as tried. Lives on the event loop."""

    def __init__(self) -> None:
        self._left: dict[Key, list[asyncio.Task[_Answer]]] = {}
        """What was left behind, or has come since and nobody has asked for."""
        self._late: set[str] = set()

    def others(self, names: Collection[str], name: str) -> bool:
        """Whether another of these brokers isn't late."""
        return any(each != name and each not in self._late for each in names)

    async def answer(
        self, broker: str, content: Mapping[str, Any], ask: Ask, most_s: float | None
    ) -> list[MessageView]:
        """What the broker answers to this, or to the same that was left under way before. `most_s`: how long that may
        take; None: as long as it does. A broker that was late isn't waited for where another can be asked, until it has
        answered. Raises `Unreachable` for one that takes longer, and what `ask` raises."""
        self._forget_expired()
        key = broker, tuple(sorted(content.items()))
        task = self._taken(key) or asyncio.ensure_future(_timed(ask, content["invisible_ms"] / 1000))
        try:
            await asyncio.wait([task], timeout=0 if most_s is not None and broker in self._late else most_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            self._late.add(broker)
            self._left.setdefault(key, []).append(task)
            raise Unreachable(f"broker {broker!r} takes long to answer", sent=True)
        self._late.discard(broker)
        found = await task
        return found.messages if found.until_s > asyncio.get_running_loop().time() else []

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [task for tasks in self._left.values() for task in tasks]
        self._left.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _taken(self, key: Key) -> asyncio.Task[_Answer] | None:
        tasks = self._left.get(key)
        if tasks is None:
            return None
        task = tasks.pop(0)
        if not tasks:
            del self._left[key]
        return task

    def _forget_expired(self) -> None:
        """What has come and was asked for by nobody is others' by now."""
        now_s = asyncio.get_running_loop().time()
        for key, tasks in list(self._left.items()):
            kept = [task for task in tasks if not _is_over(task, now_s)]
            if kept:
                self._left[key] = kept
            else:
                del self._left[key]


async def _timed(ask: Ask, invisible_s: float) -> _Answer:
    messages = await ask()
    return _Answer(messages, asyncio.get_running_loop().time() + invisible_s)


def _is_over(task: asyncio.Task[_Answer], now_s: float) -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().until_s <= now_s
