"""Dead letters that are given up for good, as nothing can process them: they stay readable, and are open no more."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.filter import compile_filter
from lakemq.gateway.redrive.columns import COLUMNS
from lakemq.gateway.redrive.dead_letters import check_count, find_dead_letters
from lakemq.model.errors import Busy
from lakemq.model.names import DISCARD_TOPIC
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.discard_record import LETTERS_MAX, to_body

SEARCHES_MAX = 1
"""At a time: each takes a thread, and pulls need some too."""


class Discarded(NamedTuple):
    """Of a group's open dead letters, how many `matched`, and of how many it is in the log that they are given up;
    `gone`: how many of the group's are in neither the log nor the lake any more."""

    matched: int
    discarded: int
    gone: int


class Discarder:
    """Discards the dead letters of one broker. Lives on the event loop."""

    def __init__(self, executor: Executor, cold: ColdReader) -> None:
        self._executor = executor
        self._cold = cold
        self._searches = 0

    async def discard(self, group: str, where: str | None, dry_run: bool) -> Discarded:
        """Discard the group's dead letters that satisfy `where`. One that a redrive is just sending is left out. A
        crash leaves some discarded and the others open: who repeats the request goes on.

        Raises `InvalidFilter`, `InvalidRequest` for too many, `Busy`, `StoreUnwritable`, `LogDamaged`,
        `LakeUnreadable`.
        """
        if self._searches >= SEARCHES_MAX:
            raise Busy("dead letters are being discarded already; try again")
        self._searches += 1
        try:
            condition = None if where is None else await asyncio.to_thread(compile_filter, where, COLUMNS)
            matched, gone = await find_dead_letters(self._executor, self._cold, group, condition)
            check_count(matched)
            discarded = 0 if dry_run else await self._write(group, where, matched)
        finally:
            self._searches -= 1
        return Discarded(len(matched), discarded, gone)

    async def _write(self, group: str, where: str | None, letters: BitMap64) -> int:
        queue = (await self._executor.ensure_topic(DISCARD_TOPIC)).queues[0]
        count = 0
        for begin in range(0, len(letters), LETTERS_MAX):
            causes = self._executor.claim(letters[begin : begin + LETTERS_MAX])
            if not causes:
                continue
            row = make_row(body=to_body(where, causes), tag="discard", group=group)
            await self._executor.execute_claimed(RowsAppend([row], [queue]), causes)
            count += len(causes)
            if self._executor.log.backlogged:
                await self._executor.log.flushed()
        return count
