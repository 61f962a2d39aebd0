"""Who leads, as a store of objects has it: an object for each record that was in force, and one for the beat.

They are numbered: the next number's is made where there is none, so of all who want to follow the same record one
does. The newest is in force. Those before it stay, many of them: who was away for long and makes one again that is
gone is behind all that a listing shows then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from uuid import uuid4

from lakemq.gateway.fleet.objects import Objects
from lakemq.gateway.fleet.polled_leadership import Found, PolledLeadership
from lakemq.gateway.fleet.stored import attempted, beat_of_bytes, beat_to_bytes, stored_of
from lakemq.model.beat import Beat
from lakemq.model.errors import SettingsError
from lakemq.model.in_sync import Record

logger = logging.getLogger(__name__)

NOTHING = Found(None, -1)
KEPT = 100
"""So many before the newest stay."""
READS = 3
"""So often what a listing showed may be gone when it is read."""
_NUMBER = re.compile(r"\d{20}")
_LACKING = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a store says that can't make an object just where there is none."""


class ObjectStoreLeadership(PolledLeadership):
    """`Leadership` of one broker by objects below `{cluster}/{broker}/`, of which so many old ones are kept."""

    def __init__(
        self,
        objects: Objects,
        whose: str,
        cluster: str,
        broker: str,
        answer_s: float,
        pause_s: float,
        kept: int = KEPT,
    ) -> None:
        super().__init__(whose, answer_s, pause_s)
        self._objects = objects
        self._folder = f"{cluster}/{broker}"
        self._newest = NOTHING
        self._kept = kept
        self._is_proved = False
        self._tidying: asyncio.Task[None] | None = None

    async def prove(self) -> None:
        """That the store makes an object only where there is none, and lists it. Raises `SettingsError` where it
        doesn't, and `OSError` where it can't be asked: then it is proved before the first change."""
        async with self._bounded():
            await self._prove()

    async def _prove(self) -> None:
        folder, name = f"{self._folder}/probe", uuid4().hex
        try:
            await self._objects.put_new(f"{folder}/{name}", b"first")
            is_taken_twice = await self._objects.put_new(f"{folder}/{name}", b"second")
        except OSError as error:
            if error.errno in _LACKING:
                raise SettingsError(f"{self.whose} can't keep the record of the leader: {error}") from None
            raise
        is_listed = name in await self._objects.names(folder)
        await self._delete(f"{folder}/{name}")
        if is_taken_twice or not is_listed:
            what = "lets two make the same object" if is_taken_twice else "doesn't list what it has just taken"
            raise SettingsError(f"{self.whose} {what}: two brokers could lead. Another fleet.store is needed")
        self._is_proved = True

    # The record ------------------------------------------------------------------------------

    def _path(self, number: int) -> str:
        return f"{self._folder}/records/{number:020}"

    async def _numbers(self) -> list[int]:
        """Those that are there, ascending."""
        names = await self._objects.names(f"{self._folder}/records")
        return sorted(int(each) for each in names if _NUMBER.fullmatch(each))

    async def _find(self) -> Found:
        for _ in range(READS):
            numbers = await self._numbers()
            if not numbers:
                return NOTHING
            if numbers[-1] == self._newest.revision:
                return self._newest
            path = self._path(numbers[-1])
            data = await self._objects.get(path, lasting=True)
            if data is not None:
                self._newest = Found(stored_of(data, f"{self.whose}, {path}").record, numbers[-1])
                return self._newest
        raise OSError(f"{self.whose} lists records of leaders that it doesn't have")

    async def _replace(self, record: Record, found: Found) -> bool:
        if not self._is_proved:
            await self._prove()
        number = found.revision + 1
        path, attempt = self._path(number), attempted(record).to_bytes()
        is_new = await self._objects.put_new(path, attempt)
        if not is_new and await self._objects.get(path, lasting=True) != attempt:
            return False
        numbers = await self._numbers()
        if numbers[-1:] != [number]:
            return False  # it was made again long after it was replaced, or is replaced already
        self._tidy_soon(numbers)
        return True

    def _tidy_soon(self, numbers: list[int]) -> None:
        old = [each for each in numbers if each < numbers[-1] - self._kept]
        if old and (self._tidying is None or self._tidying.done()):
            self._tidying = asyncio.get_running_loop().create_task(self._tidy(old))

    async def _tidy(self, numbers: list[int]) -> None:
        for each in numbers:
            await self._delete(self._path(each))

    async def _delete(self, name: str) -> None:
        """Nobody needs it any more. Where that fails it stays, and does no harm."""
        try:
            async with self._bounded():
                await self._objects.delete(name)
        except OSError as error:
            logger.warning("%s: could not delete %s yet: %s", self.whose, name, error)

    # The beat --------------------------------------------------------------------------------

    async def _put_beat(self, beat: Beat) -> None:
        await self._objects.put(f"{self._folder}/beat", beat_to_bytes(beat))

    async def _find_beat(self) -> Beat | None:
        return beat_of_bytes(await self._objects.get(f"{self._folder}/beat", lasting=False))

    async def close(self) -> None:
        """`Leadership.close`."""
        await super().close()
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self._objects.close()
