"""Does what is due on its millisecond, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from lakemq.gateway.effects.executor import AT_ONCE_MAX
from lakemq.model.errors import LakemqError
from lakemq.storage.state.dues import Dues

logger = logging.getLogger(__name__)

SLEEP_S_MAX = 1.0
RETRY_MS = 1_000


class DueWork(Protocol):
    """What is done when it is due."""

    @property
    def dues(self) -> Dues:
        """What is to be done when."""
        ...

    def now_ms(self) -> int:
        """What is due at that time is done."""
        ...

    async def do(self, positions: list[int]) -> None:
        """Do it; what fails is put back."""
        ...

    def put_back(self, positions: list[int], due_ms: int) -> None:
        """Do what of it is left at that time."""
        ...


class DueLoop:
    """Does the `work`. `what`: how its log calls the positions."""

    def __init__(self, work: DueWork, what: str) -> None:
        self._work = work
        self._what = what
        self._sleeping: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look at the time."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Do no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look_again(self) -> None:
        """Something may be due earlier than what was known."""
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    @property
    def idle(self) -> bool:
        """Whether it does nothing now."""
        return self._task is None or (self._sleeping is not None and not self._sleeping.done())

    async def _run(self) -> None:
        while True:
            due_ms = self._work.dues.earliest()
            now_ms = self._work.now_ms()
            if due_ms is None or due_ms > now_ms:
                await self._sleep(None if due_ms is None else (due_ms - now_ms) / 1000)
            else:
                await self._do(self._work.dues.take(now_ms, AT_ONCE_MAX), now_ms)

    async def _do(self, positions: list[int], now_ms: int) -> None:
        try:
            await self._work.do(positions)
        except LakemqError as error:
            logger.warning("%d %s; retrying: %s", len(positions), self._what, error)
            self._work.put_back(positions, now_ms + RETRY_MS)
        except Exception:
            logger.exception("%d %s; retrying", len(positions), self._what)
            self._work.put_back(positions, now_ms + RETRY_MS)

    async def _sleep(self, seconds: float | None) -> None:
        """Until the time is over or something earlier is due. Bounded: the clock may be moved."""
        loop = asyncio.get_running_loop()
        self._sleeping = loop.create_future()
        timer = None if seconds is None else loop.call_later(min(seconds, SLEEP_S_MAX), self.look_again)
        try:
            await self._sleeping
        finally:
            if timer is not None:
                timer.cancel()
