"""How many pieces of one kind of work run at a time: in all, and for one user, so that one user leaves room for
others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from weakref import WeakValueDictionary

from lakemq.model.errors import Busy


class WorkTurns:
    """`most` at a time, `user_most` of them for one user. `work`: what an error says is running, as a plural."""

    def __init__(self, most: int, user_most: int, work: str) -> None:
        self._most, self._user_most, self._work = most, user_most, work
        self._all = asyncio.Semaphore(most)
        self._of_user: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def turn(self, user: str) -> AbstractAsyncContextManager[None]:
        """Within it one piece runs. Raises `Busy` where too many are; of several that are asked for at once, those
        that are too many wait."""
        of_user = self._of_user.setdefault(user, asyncio.Semaphore(self._user_most))
        if of_user.locked():
            raise Busy(f"{self._user_most} {self._work} are running for this user already")
        if self._all.locked():
            raise Busy(f"{self._most} {self._work} are running already")
        return _within(of_user, self._all)


@asynccontextmanager
async def _within(of_user: asyncio.Semaphore, all_of_them: asyncio.Semaphore) -> AsyncGenerator[None]:
    async with of_user, all_of_them:
        yield
