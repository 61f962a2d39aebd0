"""What all stores on the network have in common: they are asked, within a bounded time, and looked at now and then."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import NamedTuple

from lakemq.gateway.fleet.leadership import Superseded
from lakemq.model.beat import Beat
from lakemq.model.errors import LogDamaged
from lakemq.model.in_sync import Record, may_replace


class Found(NamedTuple):
    """What is in force, and as which revision or number the store has it."""

    record: Record | None
    revision: int


class PolledLeadership(ABC):
    """`Leadership` by a store that is asked. `answer_s`: in so long each call answers or raises `OSError`; `pause_s`:
    so often at most the store is looked at for all that watch."""

    def __init__(self, whose: str, answer_s: float, pause_s: float) -> None:
        """`whose`: what the store is called where it fails."""
        self.whose = whose
        self._answer_s = answer_s
        self._pause_s = pause_s
        self._held: Record | None = None
        """The last that is known to have been in force."""
        self._problem: Exception | None = None
        """Why the last look failed."""
        self._looks = 0
        self._looked_s = -inf
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    # What each store does in its own way -----------------------------------------------------

    @abstractmethod
    async def _find(self) -> Found:
        """What is in force. Raises `OSError`, `LogDamaged`."""

    @abstractmethod
    async def _replace(self, record: Record, found: Found) -> bool:
        """Put the record in the place of what was found, if that is still in force. Raises `OSError`: it may be
        done."""

    @abstractmethod
    async def _put_beat(self, beat: Beat) -> None:
        """Raises `OSError`: it may be done."""

    @abstractmethod
    async def _find_beat(self) -> Beat | None:
        """Raises `OSError`."""

    # Asking ----------------------------------------------------------------------------------

    async def read(self) -> Record | None:
        """`Leadership.read`."""
        async with self._bounded():
            return (await self._find_sound()).record

    async def compare_and_set(self, record: Record) -> bool:
        """`Leadership.compare_and_set`."""
        async with self._bounded():
            found = await self._find_sound()
            if not may_replace(record, found.record) or not await self._replace(record, found):
                return False
        self._hold(record)
        return True

    async def beat(self, beat: Beat) -> None:
        """`Leadership.beat`. The record is looked at first: the beat of a leader that stood still between the two comes
        late, and takes the place of its successor's until the next one of that."""
        async with self._bounded():
            if not beat.is_of((await self._find_sound()).record):
                raise Superseded(f"{self.whose}: replica {beat.replica} doesn't lead in epoch {beat.epoch}")
            await self._put_beat(beat)

    async def last_beat(self) -> Beat | None:
        """`Leadership.last_beat`."""
        async with self._bounded():
            return await self._find_beat()

    async def close(self) -> None:
        """`Leadership.close`."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    @asynccontextmanager
    async def _bounded(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._answer_s):
                yield
        except TimeoutError:
            raise TimeoutError(f"{self.whose} doesn't answer within {self._answer_s:g} s") from None

    async def _find_sound(self) -> Found:
        """What is in force, which is nothing that was in force before what was known. Raises `LogDamaged`."""
        known = self._held
        found = await self._find()
        version = -1 if found.record is None else found.record.version
        if known is not None and version < known.version:
            raise LogDamaged(f"{self.whose} had record {known.version} of the leader, and now it has {version}")
        if found.record is not None:
            self._hold(found.record)
        return found

    def _hold(self, record: Record) -> None:
        if self._held is None or record.version > self._held.version:
            self._held = record
            self._tell()

    # Watching --------------------------------------------------------------------------------

    async def watch(self, version: int, seconds: float) -> Record | None:
        """`Leadership.watch`: the store is looked at every `pause_s`; what this process has put there is known at
        once."""
        loop, looks = asyncio.get_running_loop(), self._looks
        until_s = loop.time() + seconds
        while not self._differs(version, looked=self._looks > looks):
            rest_s = until_s - loop.time()
            if rest_s <= 0:
                if self._problem is not None:
                    raise OSError(f"who leads can't be seen: {self._problem}") from self._problem
                break
            news = self._news
            due_s = self._look_when_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(rest_s, due_s)):
                    await news.wait()
        return self._held

    def _differs(self, version: int, looked: bool) -> bool:
        """Whether another one is in force than that. One before it may be known here, until the store was looked at."""
        if self._held is None or self._held.version == version:
            return False
        return looked or self._held.version > version

    def _look_when_due(self) -> float:
        """See to it that the store is looked at. So many seconds who waits needs not come back."""
        if self._looking is not None and not self._looking.done():
            return inf
        loop = asyncio.get_running_loop()
        rest_s = self._looked_s + self._pause_s - loop.time()
        if rest_s > 0:
            return rest_s
        self._looked_s = loop.time()
        self._looking = loop.create_task(self._look())
        return inf

    async def _look(self) -> None:
        try:
            await self.read()
            self._problem = None
        except (OSError, LogDamaged) as error:
            self._problem = error
        self._looks += 1
        self._tell()

    def _tell(self) -> None:
        """Wake who waits for news."""
        news, self._news = self._news, asyncio.Event()
        news.set()
