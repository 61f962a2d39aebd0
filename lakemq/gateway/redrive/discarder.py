"""Dead letters that are given up for good, as nothing can process them: they stay readable, and are open no more."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.redrive.dead_letters import find_dead_letters
from lakemq.model.names import DISCARD_TOPIC
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.discard_record import LETTERS_MAX, to_body
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

AT_ONCE_MAX = 1
"""Each takes a thread, and pulls need some too."""
WAITING_MAX = 64
"""So many more wait for that, for clients in turn."""


class Discard(NamedTuple):
    """Which of a group's open dead letters: those that satisfy the predicate `where`, at positions up to `up_to`; None:
    all. `by`: the name of who asks."""

    group: str
    where: str | None = None
    up_to: int | None = None
    by: str = ""


class Discarded(NamedTuple):
    """How many letters `matched`, and the highest position of one; how many are discarded, as the log says; `gone`: how
    many of the group's are in neither the log nor the lake any more."""

    matched: int
    discarded: int
    gone: int
    last: int | None


class Discarder:
    """Discards the dead letters of one broker. Lives on the event loop."""

    def __init__(self, executor: Executor, cold: ColdReader, client_share: float) -> None:
        self._executor = executor
        self._cold = cold
        self._gate = Gate(AT_ONCE_MAX, WAITING_MAX, client_share)

    async def discard(self, wanted: Discard, dry_run: bool, client: Client) -> Discarded:
        """Discard these; a dry run only counts them. One that a redrive is sending at that moment is left out. A crash
        leaves some discarded and the others open: who repeats the request goes on.

        Raises `InvalidFilter`, `InvalidRequest` for too many, `Busy`, `StoreUnwritable`, `LogDamaged`,
        `LakeUnreadable`.
        """
        async with self._gate.place(client):
            group, where, up_to = wanted.group, wanted.where, wanted.up_to
            matched, gone = await find_dead_letters(self._executor, self._cold, group, where, up_to)
            discarded = 0 if dry_run else await self._write(wanted, matched)
        return Discarded(len(matched), discarded, gone, matched.max() if matched else None)

    async def _write(self, wanted: Discard, letters: BitMap64) -> int:
        queue = (await self._executor.ensure_topic(DISCARD_TOPIC)).queues[0]
        count = 0
        for begin in range(0, len(letters), LETTERS_MAX):
            causes = self._executor.claim(letters[begin : begin + LETTERS_MAX])
            if not causes:
                await asyncio.sleep(0)  # others go on
                continue
            row = make_row(body=to_body(wanted.where, wanted.by, causes), tag="discard", group=wanted.group)
            await self._executor.execute_claimed(RowsAppend([row], [queue]), causes)
            count += len(causes)
            if self._executor.log.backlogged:
                await self._executor.log.flushed()
        return count
