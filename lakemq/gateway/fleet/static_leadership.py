"""The record of a leader that is set by configuration, in a file of its own folder: nobody else changes it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from lakemq.gateway.fleet.leadership import Superseded
from lakemq.model.beat import Beat
from lakemq.model.errors import LogDamaged
from lakemq.model.in_sync import Record, may_replace, record_of
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import read_sealed, write_sealed

NAME = "IN_SYNC"


class StaticLeadership:
    """The record of that log, in `directory`. On one loop, whose threads touch the file."""

    def __init__(self, files: Files, directory: Path, log_id: str) -> None:
        self._files = files
        self._path = directory / NAME
        self._log_id = log_id
        self._turn = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._held: Record | None = None
        self._beat: Beat | None = None
        self._is_known = False
        self._is_in_doubt = False
        """A write has failed: the file holds what it was to hold, or what it held before, on disk or not."""

    async def read(self) -> Record | None:
        """`Leadership.read`. Raises `LogDamaged` for a file that isn't sound: who was in sync isn't known then."""
        if not self._is_known:
            async with self._turn:
                await self._know()
        return self._held

    async def _know(self) -> None:
        if not self._is_known:
            self._held, self._is_known = await asyncio.to_thread(self._find), True

    def _find(self) -> Record | None:
        """What the file holds, on disk for certain."""
        held = self._read()
        if held is not None and self._is_in_doubt:
            self._write(held)
        return held

    def _write(self, record: Record) -> None:
        self._is_in_doubt = True
        write_sealed(self._files, self._path, record._asdict())
        self._is_in_doubt = False

    def _read(self) -> Record | None:
        try:
            held = read_sealed(self._files, self._path)
            record = None if held is None else record_of(held)
        except ValueError as error:
            raise LogDamaged(f"which followers were in sync can't be read in {self._path}: {error!r}") from None
        return record if record is not None and record.log_id == self._log_id else None

    async def compare_and_set(self, record: Record) -> bool:
        """`Leadership.compare_and_set`: on disk on return."""
        async with self._turn:
            await self._know()
            if not may_replace(record, self._held):
                return False
            self._is_known = False  # where it fails, the file holds the one or the other
            writing = asyncio.ensure_future(asyncio.to_thread(self._write, record))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait([writing])  # nobody else may find it half done, such as the next process
                raise
            self._held, self._is_known = record, True
        async with self._changed:
            self._changed.notify_all()
        return True

    async def watch(self, version: int, seconds: float) -> Record | None:
        """`Leadership.watch`: changes by this process are all that there are."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                while (found := await self.read()) is None or found.version == version:
                    await self._changed.wait()
        return await self.read()

    async def beat(self, beat: Beat) -> None:
        """`Leadership.beat`: nobody waits for it, as nobody takes this leader's place. It is known in this process
        alone."""
        if not beat.is_of(await self.read()):
            raise Superseded(f"replica {beat.replica} doesn't lead in epoch {beat.epoch}")
        self._beat = beat

    async def last_beat(self) -> Beat | None:
        """`Leadership.last_beat`: this process's own, so a follower of a static leader finds none."""
        return self._beat

    async def close(self) -> None:
        """`Leadership.close`."""
