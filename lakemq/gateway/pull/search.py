"""Searching a topic's messages in the log, newest first, by what an index doesn't have: a tag, a property, text in the
body, a predicate. Frames are read in a thread. A page looks at a bounded part of the log and says how far it came."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.by_key import READ_AT_ONCE, WINDOW_BYTES, KeySearch, rows_with_key
from lakemq.gateway.filter import Filter
from lakemq.gateway.redrive.columns import to_rows
from lakemq.model.errors import PositionGone
from lakemq.storage.read.reader import PositionPlan
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice, frames_bytes
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

SEARCHES_MAX = 2
WAITING_MAX = 64
"""So many pages are searched at a time, and so many more wait for that, for clients in turn."""
SEARCH_S_MAX = 0.5
SEARCHED_BYTES_MAX = 256 * 1024 * 1024
"""After so long, or so much of the log, a page ends: the next one goes on there."""
WINDOW_MIN, WINDOW_MAX = 64, 65_536
"""Positions that are looked at in one step: twice as many in the next as long as they are small."""
STEP_BYTES = 4 * 1024 * 1024
STEP_BYTES_MAX = 64 * 1024 * 1024
"""A step that has read more than the first isn't followed by a larger one; one that has read more than the second is
given up, and begun anew with fewer positions."""


class Wanted(NamedTuple):
    """Messages that have all that is given. `property`: a name and a value; the value None: any."""

    key: str | None = None
    tag: str | None = None
    property: tuple[str, str | None] | None = None
    text: str | None = None
    where: Filter | None = None
    begin_ms: int = 0
    end_ms: int | None = None

    def rows_of(self, part: Slice, store: Store) -> list[int]:
        """The numbers of the slice's rows that are wanted. For any thread. Raises `InvalidFilter`."""
        batch = part.frame.batch.slice(part.row, part.count)
        mask = pa.repeat(pa.scalar(True), part.count)
        for met in self._masks(part, batch, store):
            mask = pc.and_(mask, pc.fill_null(met, False))
        return pc.indices_nonzero(mask).to_pylist()

    def _masks(self, part: Slice, batch: pa.RecordBatch, store: Store) -> list[Any]:
        masks: list[Any] = []
        if self.tag is not None:
            masks.append(pc.equal(_column(batch, "tag", pa.string()), self.tag))
        if self.property is not None:
            name, value = self.property
            column = _column(batch, "properties", pa.map_(pa.string(), pa.string()))
            found = pc.map_lookup(column, pa.scalar(name), "first")
            masks.append(pc.is_valid(found) if value is None else pc.equal(found, value))
        if self.text is not None:
            body = _column(batch, "body", pa.binary())
            masks.append(pc.match_substring(body, self.text.encode()))
        if self.key is not None:
            has_key = [False] * part.count
            for number in rows_with_key(part, self.key):
                has_key[number] = True
            masks.append(pa.array(has_key))
        if self.where is not None:
            masks.append(self.where.matches(to_rows(part, store.ids, self.where.columns)))
        return masks


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    return batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)


class Page(NamedTuple):
    """Messages, newest first. `reached`: all positions from there on were searched; `begin`: where the log, or the time
    that was asked for, begins; `searched_from_ms`: from when on messages were looked at; None: the log has none."""

    messages: list[dict[str, Any]]
    reached: int
    begin: int
    log_begin: int
    searched_from_ms: int | None


class TopicSearch:
    """Searches one broker's log. Lives on the event loop."""

    def __init__(self, store: Store, cold: ColdReader, by_key: KeySearch, bytes_max: int, client_share: float) -> None:
        """`bytes_max`: of the bodies of one page, about."""
        self._store = store
        self._plans = store.plans
        self._cold = cold
        self._by_key = by_key
        self._bytes_max = bytes_max
        self._gate = Gate(SEARCHES_MAX, WAITING_MAX, client_share)

    async def page(self, topic: str, wanted: Wanted, before: int, messages_max: int, client: Client) -> Page:
        """The newest such messages below position `before`. Raises `Busy`, `InvalidFilter`, `LogDamaged`."""
        async with self._gate.place(client):
            return await self._page(topic, wanted, before, messages_max)

    async def _page(self, topic: str, wanted: Wanted, before: int, messages_max: int) -> Page:
        log, position_at_time, run = self._store.log, self._plans.position_at_time, self._cold.run
        first = await position_at_time(wanted.begin_ms, run) if wanted.begin_ms else 0
        begin, end = max(log.min_position, first), min(log.visible_position, before)
        if wanted.end_ms is not None:
            end = min(end, await position_at_time(wanted.end_ms + 1, run))
        until_s, searched, size = _now_s() + SEARCH_S_MAX, 0, 0
        found: list[dict[str, Any]] = []
        count = WINDOW_MIN
        while end > (begin := max(begin, log.min_position)):  # what has left the log meanwhile the lake has
            low = max(begin, end - count)
            try:
                positions, read = await self._window(topic, wanted, low, end)
                searched += read
                if positions is None:
                    count = max(count // 8, WINDOW_MIN)
                    continue
            except PositionGone:
                if log.min_position <= begin:
                    raise
                continue
            messages = await self._messages(topic, positions[: messages_max - len(found)], self._bytes_max - size)
            found += messages
            size += sum([len(each["body"]) for each in messages])
            if len(messages) < len(positions):  # there was no room for more: the next page goes on with the next one
                end = messages[-1]["position"] if messages else positions[0]
                break
            end = low
            if len(found) >= messages_max or size >= self._bytes_max:
                break
            if searched >= SEARCHED_BYTES_MAX or _now_s() >= until_s:
                break
            if read < STEP_BYTES:
                count = min(2 * count, WINDOW_MAX)
        return Page(found, max(end, begin), begin, log.min_position, await self._stored_ms(max(end, begin)))

    async def _stored_ms(self, position: int) -> int | None:
        log = self._store.log
        if not log.min_position <= position < log.visible_position:
            return None
        return await self._plans.stored_ms(position, self._cold.run)

    async def _window(self, topic: str, wanted: Wanted, begin: int, end: int) -> tuple[list[int] | None, int]:
        """The positions in there of what is wanted, descending, and about how many bytes were read; None: these are too
        many for one step. Raises `PositionGone`."""
        found: list[int] = []
        at, size = begin, 0
        while at < end:
            plan = await self._plans.positions(at, end, {topic}, WINDOW_BYTES, self._cold.run)
            positions, at, read = await self._cold.run(lambda plan=plan: self._matching(plan, topic, wanted))
            found += positions
            size += read
            if size > STEP_BYTES_MAX and end - begin > WINDOW_MIN:
                return None, size
        return found[::-1], size

    def _matching(self, plan: PositionPlan, topic: str, wanted: Wanted) -> tuple[list[int], int, int]:
        slices, reached = self._store.reader.read_positions_up_to(plan, {topic}, WINDOW_BYTES)
        topics = self._store.log.topics
        found: list[int] = []
        for part in slices:
            floor = topics.floor(topic, part.run.queue_id)  # below it is what a topic had that was deleted
            first, offset = part.first_position, part.first_queue_offset
            found += [first + number for number in wanted.rows_of(part, self._store) if offset + number >= floor]
        size = frames_bytes(slices)
        return found, max(reached, plan.begin + 1), size

    async def _messages(self, topic: str, positions: list[int], bytes_left: int) -> list[dict[str, Any]]:
        """The messages at the positions, which are descending; as many as have room, at least one."""
        found: list[dict[str, Any]] = []
        for first in range(0, len(positions), READ_AT_ONCE):
            for message in await self._by_key.messages(positions[first : first + READ_AT_ONCE]):
                if bytes_left <= 0:
                    return found
                if message["topic"] == topic:
                    found.append(message)
                    bytes_left -= len(message["body"])
        return found


def _now_s() -> float:
    return asyncio.get_running_loop().time()
