"""Listing dead letters by page, newest first. They are read in threads, and what one page looks at is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.redrive.letters import Letter, Wanted, to_letters
from lakemq.model.dead_letter import Fact, LetterState, state_of
from lakemq.model.errors import PositionGone
from lakemq.model.names import dead_letter_topic
from lakemq.storage.segment.slice import Slice, frames_bytes
from lakemq.storage.slices.holes import Range, offsets_without
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.topics import Queue
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

SEARCHES_MAX = 2
WAITING_MAX = 64
"""So many pages are looked for at a time, and so many more wait for that, for clients in turn."""
SCANNED_MAX = 20_000
SCAN_S_MAX = 0.5
"""After so many letters, or so long, a page ends as it is: the next one goes on there."""
WINDOW_MIN, WINDOW_MAX = 32, 2_048
"""So many letters are looked at, at once."""
PAGE_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 16 * 1024 * 1024
"""About so much memory is taken by a read, and read for a window."""


class Page(NamedTuple):
    """Letters, newest first, as they are answered. `next_after`: where to go on; None: nothing is left."""

    letters: list[dict[str, Any]]
    next_after: int | None


class _Read(NamedTuple):
    """The letters that are wanted of those at offsets below `reached`, ascending, and where there are none any more."""

    letters: list[Letter]
    holes: Sequence[Range]
    reached: int
    size: int


class Listing:
    """Those of one broker's groups. Lives on the event loop."""

    def __init__(self, executor: Executor, cold: ColdReader, client_share: float) -> None:
        self._executor = executor
        self._cold = cold
        self._gate = Gate(SEARCHES_MAX, WAITING_MAX, client_share)

    async def page(
        self,
        group: str,
        wanted: Wanted,
        state: LetterState | None,
        after: int,
        letters_max: int,
        sees: Callable[[str], bool],
        client: Client,
    ) -> Page:
        """Letters at offsets below `after` of the topics that who asks `sees`. Raises `Busy`, `LogDamaged`,
        `LakeUnreadable`."""
        topic = self._executor.log.topics.find(dead_letter_topic(group))
        if topic is None:
            return Page([], None)
        async with self._gate.place(client):
            queue = topic.queues[0]
            begin, end = await self._bounds(queue, wanted)
            return await self._page(queue, wanted, state, (begin, min(after, end)), letters_max, sees)

    async def _bounds(self, queue: Queue, wanted: Wanted) -> tuple[int, int]:
        """The offsets between which letters of that time are."""
        begin, end = queue.floor, queue.end_offset
        if wanted.begin_ms:
            begin = max(begin, await self._cold.offset_at_time(queue, wanted.begin_ms))
        if wanted.end_ms is not None:
            end = min(end, await self._cold.offset_at_time(queue, wanted.end_ms + 1))
        return begin, end

    async def _page(
        self,
        queue: Queue,
        wanted: Wanted,
        state: LetterState | None,
        between: tuple[int, int],
        letters_max: int,
        sees: Callable[[str], bool],
    ) -> Page:
        begin, end = between
        first, until_s = end, _now_s() + SCAN_S_MAX
        gone = wanted.everything and state in (None, LetterState.GONE)
        found: list[dict[str, Any]] = []
        count = WINDOW_MIN
        while end > begin:
            low = max(begin, end - count)
            letters, size = await self._window(queue, wanted, low, end, gone)
            for letter in reversed(letters):
                its_state = self._state_of(letter)
                if (state is None or its_state is state) and _is_seen(letter, sees):
                    found.append(letter.describe(its_state, self._executor.ids))
                    if len(found) == letters_max:
                        return Page(found, _after(letter.queue_offset, begin))
            end = low
            if first - end >= SCANNED_MAX or _now_s() >= until_s:
                break
            count = min(2 * count, WINDOW_MAX, max(WINDOW_BYTES * count // max(size, 1), 1))
        return Page(found, _after(end, begin))

    def _state_of(self, letter: Letter) -> LetterState:
        if letter.position is None:
            return state_of((Fact.UNSTORED,))
        routing = self._executor.state
        if letter.position in routing.dead:
            return state_of(())
        if letter.position in routing.discarded:
            return state_of((Fact.GIVEN_UP,))
        known = letter.position >= max(routing.dead_floor, routing.discarded_floor)
        return state_of((Fact.COPIED if known else Fact.UNREACHABLE,))

    async def _window(self, queue: Queue, wanted: Wanted, begin: int, end: int, gone: bool) -> tuple[list[Letter], int]:
        """The letters at these offsets that are wanted, ascending, those that are stored no more only if `gone`; and
        about how many bytes were read for it."""
        letters: list[Letter] = []
        offset, size = begin, 0
        while offset < end:
            read = await self._read(queue, wanted, offset, end)
            letters += read.letters
            size += read.size
            reached = min(max(read.reached, offset + 1), end)
            if gone:
                holes = [given for hole in read.holes for given in queue.given_between(hole[0], min(hole[1], reached))]
                letters += [Letter(each) for given in holes for each in range(*given)]
            offset = reached
        return sorted(letters, key=_offset_of) if gone else letters, size

    async def _read(self, queue: Queue, wanted: Wanted, offset: int, end: int) -> _Read:
        """Of the letters from `offset` on as many as a read may hold."""
        if offset >= queue.min_offset:
            reader, ids = self._executor.reader, self._executor.ids
            try:
                plan = await self._executor.plans.queue(queue, offset, end - offset, PAGE_BYTES, asyncio.to_thread)
                return await asyncio.to_thread(
                    lambda: _read_of(*reader.read_up_to(plan, PAGE_BYTES), offset, wanted, ids)
                )
            except PositionGone:
                pass  # retention was faster: it is in the lake
        end = min(end, queue.min_offset)
        found = await self._cold.slices(queue, offset, end - offset, PAGE_BYTES)
        slices, reached = ([], end) if found is None else found
        ids = self._executor.ids
        return await self._cold.run(lambda: _read_of(slices, min(reached, end), offset, wanted, ids))


def _read_of(slices: list[Slice], reached: int, offset: int, wanted: Wanted, ids: MessageIds) -> _Read:
    letters = [letter for letter in to_letters(slices, ids) if wanted.has(letter)]
    size = frames_bytes(slices)
    return _Read(letters, offsets_without(slices, offset, reached), reached, size)


def _offset_of(letter: Letter) -> int:
    return letter.queue_offset


def _is_seen(letter: Letter, sees: Callable[[str], bool]) -> bool:
    return letter.topic is None or sees(letter.topic)


def _after(offset: int, begin: int) -> int | None:
    return offset if offset > begin else None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
