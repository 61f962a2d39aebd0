"""Groups whose places are moved while somebody chooses messages by them.

A receipt says how far its group has come. One that was chosen before a reset or a deletion and stored after it would
take that back where the log has no place of the group yet: only the one who chose knows what it went by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Look:
    """A choice that is being made. `moved`: by places that are the group's no more."""

    __slots__ = ("moved",)

    def __init__(self) -> None:
        self.moved = False


class Moves:
    """Resets and deletions on their way to the log, and who chooses meanwhile. Lives on the event loop."""

    def __init__(self) -> None:
        self._under_way: dict[str, set[asyncio.Future[None]]] = {}
        self._looks: dict[str, set[Look]] = {}
        self._storing: dict[str, set[asyncio.Future[Any]]] = {}

    @asynccontextmanager
    async def moving(self, group: str) -> AsyncGenerator[None]:
        """The group's places are moved in here, and none of its receipts is on its way to the log."""
        done = asyncio.get_running_loop().create_future()
        self._under_way.setdefault(group, set()).add(done)
        for look in self._looks.get(group, ()):
            look.moved = True
        try:
            # The log keeps no order among what comes in one round of the event loop.
            while storing := self._storing.get(group):
                await asyncio.wait(list(storing))
            yield
        finally:
            done.set_result(None)
            _drop(self._under_way, group, done)

    async def settled(self, group: str) -> None:
        """Return when none of the group's places is being moved."""
        while under_way := self._under_way.get(group):
            await asyncio.wait(list(under_way))

    @contextmanager
    def looking(self, group: str) -> Generator[Look]:
        """Somebody chooses for the group in here, by places that are `settled`."""
        look = Look()
        self._looks.setdefault(group, set()).add(look)
        try:
            yield look
        finally:
            _drop(self._looks, group, look)

    def store(self, group: str, storing: asyncio.Future[Any]) -> None:
        """Receipts of the group are stored, that were chosen by a look which wasn't moved."""
        self._storing.setdefault(group, set()).add(storing)
        storing.add_done_callback(lambda done: _drop(self._storing, group, done))


def _drop(sets: dict[str, set[T]], group: str, each: T) -> None:
    sets[group].discard(each)
    if not sets[group]:
        del sets[group]
