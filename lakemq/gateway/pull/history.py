"""What happened to a message, by its causes and their effects (docs/routing.md): rows of the system's topics that name
it, or what it led to. They are read from the log in a thread, forward, and each page reads a bounded part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lakemq.gateway.cold import ColdReader
from lakemq.model.errors import LakemqError, MessageNotFound, PositionGone
from lakemq.model.failure import failure_of
from lakemq.model.life_event import what_of
from lakemq.model.names import (
    ACK_TOPIC,
    CHECK_MAX_TOPIC,
    DEAD_LETTER_PREFIX,
    DECISION_TOPIC,
    HALF_TOPIC,
    NACK_TOPIC,
    OP_TOPIC,
    RECEIVE_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.read.reader import PositionPlan
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice, frames_bytes
from lakemq.storage.slices.messages import to_dicts
from lakemq.storage.state.routing_state import RoutingState, position_of
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

LOOKS_MAX = 2
WAITING_MAX = 64
"""So many pages are read at a time, and so many more wait for that, for clients in turn."""
LOOK_S_MAX = 0.5
READ_BYTES_MAX = 128 * 1024 * 1024
"""After so long, or so much of the log, a page ends: the next one goes on there."""
WINDOW_POSITIONS = 20_000
WINDOW_BYTES = 8 * 1024 * 1024
EVENTS_MAX = 200
KNOWN_MAX = 400
"""Causes that are followed from page to page, the newest: a cause has one effect, so that of an old one is known."""
ORIGINS_MAX = 4
"""So many steps it is at most from a copy to what was sent."""
_WAITED_IN = (SCHEDULE_TOPIC, HALF_TOPIC)
_ALWAYS = (SCHEDULE_TOPIC, NACK_TOPIC, RECEIVE_TOPIC, ACK_TOPIC, DECISION_TOPIC)
_OF_HALVES = (HALF_TOPIC, OP_TOPIC, CHECK_MAX_TOPIC)
_COLUMNS = ("cause", "origin_message_id", "group", "deliver_at_ms", "reconsume_times", "tag", "properties")


class Event(NamedTuple):
    """A row of the log that is about the message. `what`: by its topic. `due_ms`: until when it waits, or is out."""

    position: int
    cause: int | None
    what: str
    time_ms: int
    topic: str
    queue_id: int
    queue_offset: int
    group: str | None
    due_ms: int | None
    reconsume_times: int
    tag: str | None
    failure_class: str | None
    failure_text: str | None


class Place(NamedTuple):
    """Where a page goes on: a position of the log, and the causes that are followed."""

    position: int = 0
    causes: tuple[int, ...] = ()


class Page(NamedTuple):
    """`following`: where the next page goes on; `end`: where the log ended."""

    events: list[Event]
    following: Place
    end: int


class Traced(NamedTuple):
    """The message that was asked for, and the one that was sent, of which it may be a copy, with its slice."""

    asked: dict[str, Any]
    sent: dict[str, Any]
    part: Slice | ColdSlice


class History:
    """Of the messages of one broker. Lives on the event loop."""

    def __init__(self, store: Store, cold: ColdReader, client_share: float) -> None:
        self._store = store
        self._plans = store.plans
        self._cold = cold
        self._gate = Gate(LOOKS_MAX, WAITING_MAX, client_share)

    async def trace(self, message_id: str) -> Traced:
        """The message. Raises `MessageNotFound`, `LogDamaged`, `LakeUnreadable`, `InvalidRequest`."""
        part = await find_message(self._store, self._cold, self._store.ids.position(message_id))
        asked = sent = to_dicts(part, self._store.ids)[0]
        for _ in range(ORIGINS_MAX):
            before = None
            if origin := sent.get("origin_message_id"):
                # It may be another broker's, or gone: then the copy's own is all that is known.
                with suppress(LakemqError):
                    before = await find_message(self._store, self._cold, self._store.ids.position(origin))
            if before is None:
                break
            first = to_dicts(before, self._store.ids)[0]
            if first["topic"] not in _WAITED_IN and not sent["topic"].startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
                break  # a replay's copy is a message of its own
            if self.is_deleted(first) or self._is_outlived(first):
                break  # with its topic: so too
            sent, part = first, before
        return Traced(asked, sent, part)

    def is_deleted(self, message: dict[str, Any]) -> bool:
        """Whether it was deleted with its topic."""
        floor = self._store.log.topics.floor(message["topic"], message["queue_id"])
        return bool(message["queue_offset"] < floor)

    def _is_outlived(self, message: dict[str, Any]) -> bool:
        if message["topic"] not in _WAITED_IN:
            return False
        return self._store.log.topics.find_for(message["real_topic"], waits_since(message)) is None

    async def page(self, sent: dict[str, Any], groups: Sequence[str], place: Place, client: Client) -> Page:
        """What the log says of the message from the place on. Raises `Busy`, `LogDamaged`."""
        async with self._gate.place(client):
            return await self._page(sent, groups, place)

    async def _page(self, sent: dict[str, Any], groups: Sequence[str], place: Place) -> Page:
        log, causes = self._store.log, {sent["position"], *place.causes}
        topics = {*_ALWAYS, *map(retry_topic, groups), *map(dead_letter_topic, groups)}
        if sent["topic"] in _WAITED_IN:
            topics |= {sent["real_topic"], *_OF_HALVES} if sent["topic"] == HALF_TOPIC else {sent["real_topic"]}
        at, end = max(place.position, sent["position"] + 1, log.min_position), log.visible_position
        until_s, size = _now_s() + LOOK_S_MAX, 0
        events: list[Event] = []
        while at < end and len(events) < EVENTS_MAX:
            left = EVENTS_MAX - len(events)
            try:
                upto = min(at + WINDOW_POSITIONS, end)
                plan = await self._plans.positions(at, upto, topics, WINDOW_BYTES, self._cold.run)
                found, at, read = await self._cold.run(
                    lambda plan=plan, left=left: self._read(plan, topics, causes, left)
                )
            except PositionGone:
                if log.min_position <= at:
                    raise
                at = log.min_position  # retention was faster
                continue
            events += found
            size += read
            if size >= READ_BYTES_MAX or _now_s() >= until_s:
                break
        followed = sorted(causes - {sent["position"]})[-KNOWN_MAX:]
        return Page(events, Place(at, tuple(followed)), end)

    def _read(
        self, plan: PositionPlan, topics: set[str], causes: set[int], events_max: int
    ) -> tuple[list[Event], int, int]:
        """The first `events_max` events in there; their positions join the `causes`. For any thread, as long as nobody
        else has these."""
        slices, reached = self._store.reader.read_positions_up_to(plan, topics, WINDOW_BYTES)
        names = {self._store.ids.of(each) for each in causes}
        events: list[Event] = []
        for part in slices:
            content = part.frame.content
            about = zip(
                content.values("cause", part.row, part.count),
                content.values("origin_message_id", part.row, part.count),
                strict=True,
            )
            for number, (cause, origin) in enumerate(about):
                if cause not in causes and origin not in names:
                    continue
                event = _event(part, number)
                events.append(event)
                causes.add(event.position)
                names.add(self._store.ids.of(event.position))
                if len(events) >= events_max:
                    return events, event.position + 1, WINDOW_BYTES
        size = frames_bytes(slices)
        return events, max(reached, plan.begin + 1), size

    def describe(self, events: Sequence[Event], sees: Callable[[str], bool]) -> list[dict[str, Any]]:
        """The events as JSON values, those of groups that who asks `sees`."""
        state = self._store.log.routing
        shown = (each for each in events if each.group is None or sees(each.group))
        return [
            {**each._asdict(), "message_id": self._store.ids.of(each.position), **_now(each, state)} for each in shown
        ]

    async def target(self, traced: Traced, events: Sequence[Event]) -> tuple[dict[str, Any], Slice | ColdSlice] | None:
        """The message as groups get it first, with its slice; None: it isn't there yet, or isn't known. Raises as
        `trace`."""
        sent = traced.sent
        if sent["topic"] not in _WAITED_IN:
            return sent, traced.part
        places = [each.position for each in events if each.what == "stored" and each.cause == sent["position"]]
        if traced.asked["topic"] == sent["real_topic"]:
            places.append(traced.asked["position"])
        if not places:
            return None
        part = await find_message(self._store, self._cold, places[0])
        first = to_dicts(part, self._store.ids)[0]
        return None if self.is_deleted(first) else (first, part)

    @property
    def now_ms(self) -> int:
        """The broker's time."""
        return self._store.log.now_ms()

    async def read_from_ms(self, sent: dict[str, Any]) -> int | None:
        """From when on the log has been read for the message; None: since it was stored. Raises as `page`."""
        log = self._store.log
        if sent["position"] >= log.min_position or log.min_position >= log.visible_position:
            return None
        return await self._plans.stored_ms(log.min_position, self._cold.run)

    def waits(self, sent: dict[str, Any], sees: Callable[[str], bool]) -> dict[str, Any] | None:
        """What the message waits for before any group may get it; None: nothing, or it has been routed. A half's
        producer group is named to who `sees` it."""
        state, position = self._store.log.routing, int(sent["position"])
        if sent["topic"] == SCHEDULE_TOPIC:
            if position in state.recalled:
                return {"for": "nothing", "outcome": "recalled"}
            if state.moved.get(position, position) in state.delays:
                return {"for": "time", "due_ms": sent.get("deliver_at_ms")}
        if sent["topic"] == HALF_TOPIC:
            if (half := state.transactions.find(position)) is not None:
                return {
                    "for": "resolution",
                    "group": half.group if half.group and sees(half.group) else None,
                    "check_times": half.check_times,
                    "due_ms": half.due_ms,
                }
            if (outcome := state.transactions.outcome(position)) == "rollback":
                return {"for": "nothing", "outcome": outcome}
        return None


def waits_since(message: dict[str, Any]) -> int:
    """The position from which on what is scheduled, or a half, has waited: a check writes the half anew."""
    origin = message.get("transaction_id") if message["topic"] == HALF_TOPIC else None
    return int(message["position"]) if origin is None else position_of(origin)


async def find_message(store: Store, cold: ColdReader, position: int) -> Slice | ColdSlice:
    """The message at the position, from the log or the lake. Raises `MessageNotFound`, `LogDamaged`,
    `LakeUnreadable`."""
    if position >= store.log.visible_position:
        raise MessageNotFound(f"the log holds no message at position {position} that may be read")
    if position >= store.log.min_position:
        with suppress(PositionGone):  # retention was faster
            plan = await store.plans.message(position, asyncio.to_thread)
            return await asyncio.to_thread(store.reader.read_message, plan)
    part = await cold.message(position)
    if part is None:
        raise MessageNotFound(f"there is no message at position {position}, neither in the log nor in the lake")
    return part


def _event(part: Slice, number: int) -> Event:
    content, row = part.frame.content, part.row + number
    cause, _, group, due_ms, times, tag, properties = (content.values(name, row, 1)[0] for name in _COLUMNS)
    topic = part.run.topic
    what, named = what_of(topic)
    why = failure_of(dict(properties or {}))
    return Event(
        part.first_position + number,
        cause,
        what,
        part.frame.meta.store_time_ms,
        topic,
        part.run.queue_id,
        part.first_queue_offset + number,
        group if named is None else named,
        due_ms,
        times or 0,
        tag,
        *((None, None) if why is None else why),
    )


def _now(event: Event, state: RoutingState) -> dict[str, bool | None]:
    """What has become of it by now."""
    waiting = {
        "scheduled": state.delays,
        "nacked": state.nacks,
        "dead": state.dead,
        "received": state.receipts.out,
    }.get(event.what)
    pending = None if waiting is None else event.position in waiting
    discarded = event.what == "dead" and event.position in state.discarded
    return {"pending": pending} | ({"discarded": True} if discarded else {})


def _now_s() -> float:
    return asyncio.get_running_loop().time()
