"""What goes on only while it is renewed: memberships and locks."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
EXPIRED_AT_ONCE_MAX = 1_000
AGAIN_S = 1.0
LATE_S = 1.0
"""A timer that is later than this says that the process stood still: nobody could renew meanwhile."""


class Renewals(Generic[K]):
    """When each key was renewed last, by the event loop's clock, which no setting of the system's
    clock moves. `on_expired` is told the keys that were not for `expiry_ms`, and may fail: they are
    told again later, unless they were renewed or discarded meanwhile."""

    def __init__(
        self, expiry_ms: int, on_expired: Callable[[list[K]], Awaitable[None]], late_s: float = LATE_S
    ) -> None:
        self._expiry_s = expiry_ms / 1000
        self._on_expired = on_expired
        self._late_s = late_s
        # The one that was not renewed for the longest time is first.
        self._renewed: OrderedDict[K, float] = OrderedDict()
        self._sooner = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Tell of what expires from now on."""
        self._task = asyncio.get_running_loop().create_task(self._expire())

    async def close(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._renewed)

    def renew(self, key: K) -> None:
        """The key goes on for `expiry_ms` from now on."""
        if not self._renewed:
            self._sooner.set()
        self._renewed[key] = asyncio.get_running_loop().time()
        self._renewed.move_to_end(key)

    def discard(self, key: K) -> None:
        """The key goes on no more; nobody is told."""
        self._renewed.pop(key, None)

    def age_ms(self, key: K) -> int | None:
        """For how long the key was not renewed; None when it does not go on."""
        renewed = self._renewed.get(key)
        return None if renewed is None else round((asyncio.get_running_loop().time() - renewed) * 1000)

    def goes_on(self, key: K) -> bool:
        """Whether the key was renewed within `expiry_ms`."""
        renewed = self._renewed.get(key)
        return renewed is not None and asyncio.get_running_loop().time() < renewed + self._expiry_s

    async def _expire(self) -> None:
        while True:
            expired = [key for key in self._oldest() if not self.goes_on(key)]
            if expired:
                await self._tell(expired)
            elif self._renewed:
                await self._sleep_until(next(iter(self._renewed.values())) + self._expiry_s)
            else:
                self._sooner.clear()
                await self._sooner.wait()

    async def _sleep_until(self, time_s: float) -> None:
        loop = asyncio.get_running_loop()
        planned = max(time_s, loop.time() + 0.001)
        await asyncio.sleep(planned - loop.time())
        late_s = loop.time() - planned
        if late_s > self._late_s:
            logger.warning("the gateway was suspended for %.1f s: nothing expires because of that", late_s)
            for key in self._renewed:
                self._renewed[key] = loop.time()

    async def _tell(self, expired: list[K]) -> None:
        try:
            await self._on_expired(expired)
        except LakemqError as error:
            logger.warning("expired members and locks stay a little longer: %s", error)
            await asyncio.sleep(AGAIN_S)
        else:
            for key in expired:
                if not self.goes_on(key):
                    self.discard(key)

    def _oldest(self) -> list[K]:
        return [key for key, _ in zip(self._renewed, range(EXPIRED_AT_ONCE_MAX), strict=False)]
