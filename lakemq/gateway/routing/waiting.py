"""Listing what waits, for people: scheduled messages by when they are due, and open transactions. A page is bounded in
what it looks at, and in time; what waits is found in threads."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.routing.due_list import Place, batches_of, due_times, soonest
from lakemq.settings import Transactions as Limits
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.state.open_halves import OpenHalf
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

LISTINGS_MAX = 2
LISTINGS_WAITING_MAX = 64
"""So many pages are made at a time, and so many more wait for that, for clients in turn."""
READ_MAX = 1_000
READ_S_MAX = 0.5
"""After so many messages, or so long, a page ends as it is: the next one goes on there."""
BATCH = 50
KEYS_MAX = 20
KEY_CHARACTERS_MAX = 200
"""So much of a message's keys is listed."""

Sees = Callable[[str, int | None], bool]
"""Whether who asks sees what waits for that topic since that position; None: what is the topic's, in any life."""
Fits = Callable[[FrameRows], frozenset[int]]
"""The numbers of those rows that are wanted; for any thread. May raise `InvalidFilter`."""
SeesHalf = Callable[[str, str, int], bool]
"""Whether who asks sees a half of that producer group and topic that began at that position."""


class Wanted(NamedTuple):
    """What a listing is of: messages to that topic, with that key; None: whichever."""

    topic: str | None = None
    key: str | None = None

    def has(self, topic: str, keys: Sequence[str] | None) -> bool:
        """Whether a message is."""
        return self.topic in (None, topic) and (self.key is None or self.key in (keys or ()))


class ScheduledPage(NamedTuple):
    """`following`: the next page begins after it; None: nothing is left."""

    messages: list[dict[str, Any]]
    following: Place | None


class TransactionPage(NamedTuple):
    """So too, of transactions: the position of a first half."""

    transactions: list[dict[str, Any]]
    following: int | None


class Waiting:
    """Lists what one broker's log has pending. Lives on the event loop."""

    def __init__(self, executor: Executor, limits: Limits, client_share: float) -> None:
        self._executor = executor
        self._limits = limits
        self._gate = Gate(LISTINGS_MAX, LISTINGS_WAITING_MAX, client_share)

    async def times(self, begin_ms: int, end_ms: int | None, buckets: int, client: Client) -> dict[str, Any]:
        """How many scheduled messages are due when, and how many wait. Raises `Busy`."""
        async with self._gate.place(client):
            state = self._executor.state
            found = await asyncio.to_thread(due_times, state.due_times.copy(), state.delays, begin_ms, end_ms, buckets)
            return {"waiting": len(state.delays), **found._asdict()}

    async def scheduled(
        self, after: Place, count_max: int, wanted: Wanted, sees: Sees, client: Client, fits: Fits | None = None
    ) -> ScheduledPage:
        """Those due after that place, of topics that who asks `sees`; with `fits` those alone. Raises `Busy`,
        `InvalidFilter`, `LogDamaged`."""
        async with self._gate.place(client):
            state = self._executor.state
            found = await asyncio.to_thread(soonest, state.due_times.copy(), state.delays, after)
            budget = _Budget()
            messages: list[dict[str, Any]] = []
            for batch in batches_of(found.places, BATCH):
                places = {place.position: place for place in batch}
                rows = await self._rows(
                    list(places), lambda at, row, places=places: _scheduled(row, places[at], wanted, sees), fits
                )
                for place in batch:
                    if described := rows.get(place.position):
                        messages.append(described)
                        if len(messages) == count_max:
                            return ScheduledPage(messages, place)
                if budget.is_spent(len(batch)):
                    return ScheduledPage(messages, batch[-1])
            return ScheduledPage(messages, None if found.ends else found.reached)

    async def transactions(
        self, after: int, count_max: int, wanted: Wanted, group: str | None, sees: SeesHalf, client: Client
    ) -> TransactionPage:
        """Open ones that began at positions beyond `after`. Raises `Busy`, `LogDamaged`."""
        async with self._gate.place(client):
            budget = _Budget()
            found: list[dict[str, Any]] = []
            halves = await asyncio.to_thread(_oldest, self._executor.state.transactions.all(), after, group)
            for at in range(0, len(halves), BATCH):
                batch = halves[at : at + BATCH]
                causes = {half.cause: half for half in batch}
                rows = await self._rows(
                    list(causes), lambda at, row, causes=causes: self._transaction(row, causes[at], wanted, sees)
                )
                for half in batch:
                    described = rows.get(half.cause)
                    if described:
                        found.append(described)
                        if len(found) == count_max:
                            return TransactionPage(found, half.origin)
                if budget.is_spent(len(batch)):
                    return TransactionPage(found, batch[-1].origin)
            return TransactionPage(found, halves[-1].origin if len(halves) == READ_MAX else None)

    def _transaction(self, row: _Row, half: OpenHalf, wanted: Wanted, sees: SeesHalf) -> dict[str, Any] | None:
        topic = row.value("real_topic")
        if topic is None or not wanted.has(topic, row.value("keys")) or not sees(half.group, topic, half.origin):
            return None
        due_ms = half.due(self._limits.timeout_ms, self._limits.check_interval_ms)
        return {
            "half_id": self._executor.ids.of(half.origin),
            "topic": topic,
            "group": half.group,
            **row.names(),
            "born_time_ms": row.born_ms,
            "checks": half.check_times,
            "checks_max": self._limits.check_max,
            "next_check_ms": None if half.resolution is not None else due_ms,
            "resolution": half.resolution,
        }

    async def _rows(
        self,
        positions: Sequence[int],
        described: Callable[[int, _Row], dict[str, Any] | None],
        fits: Fits | None = None,
    ) -> dict[int, dict[str, Any]]:
        """What is `described` of those that can be read, by position: their frames, which may be large, are let go of
        before the next are read. Not read is what damage took."""
        found: dict[int, dict[str, Any]] = {}
        async for part in self._executor.read_all(positions):
            first, told = part.frame.meta.first_position, dict[int, dict[str, Any]]()
            for number in part.numbers:
                at = first + number
                if (row := described(at, _Row(part, number, self._executor.ids.of(at)))) is not None:
                    told[number] = row
            # A predicate may fail by what is in a message, so it sees only those that are told.
            wanted = list(told)
            if told and fits is not None:
                wanted = sorted(await asyncio.to_thread(fits, part._replace(numbers=wanted)))
            found |= {first + number: told[number] for number in wanted}
        return found


class _Row(NamedTuple):
    """One of a frame's."""

    part: FrameRows
    number: int
    message_id: str

    def value(self, name: str) -> Any:
        return self.part.value(name, self.number)

    @property
    def born_ms(self) -> int:
        """When it was made, as its producer said, else when it was stored; a copy has what was known of the first."""
        return self.value("born_time_ms") or self.part.frame.meta.store_time_ms

    def names(self) -> dict[str, Any]:
        """By what people know a message."""
        keys = self.value("keys") or ()
        return {"tag": self.value("tag"), "keys": [each[:KEY_CHARACTERS_MAX] for each in keys[:KEYS_MAX]]}


class _Budget:
    """Of one page."""

    def __init__(self) -> None:
        self._read = 0
        self._until_s = _now_s() + READ_S_MAX

    def is_spent(self, read: int) -> bool:
        """Whether the page ends, now that so many more were read."""
        self._read += read
        return self._read >= READ_MAX or _now_s() >= self._until_s


def _scheduled(row: _Row, place: Place, wanted: Wanted, sees: Sees) -> dict[str, Any] | None:
    topic, retry_topic = row.value("real_topic"), row.value("retry_topic")
    if topic is None or not wanted.has(topic, row.value("keys")):
        return None
    if not sees(topic, place.position) or (retry_topic is not None and not sees(retry_topic, None)):
        return None
    origin = None if retry_topic is not None else row.value("origin_message_id")
    return {
        "message_id": origin or row.message_id,
        "topic": topic,
        "retry_topic": retry_topic,
        "due_ms": row.value("deliver_at_ms") or place.due_ms,
        **row.names(),
        "born_time_ms": row.born_ms,
        "recallable": retry_topic is None,
    }


def _oldest(halves: list[OpenHalf], after: int, group: str | None) -> list[OpenHalf]:
    wanted = (half for half in halves if half.origin > after and group in (None, half.group))
    return heapq.nsmallest(READ_MAX, wanted, key=_origin_of)


def _origin_of(half: OpenHalf) -> int:
    return half.origin


def _now_s() -> float:
    return asyncio.get_running_loop().time()
