"""Who is connected, as clients say it themselves with their heartbeats: in memory, and for people who look.

Nothing is decided by it, so it is forgotten at a restart, and clients say it again within half a minute.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from lakemq.gateway.groups.differences import Sees

PRODUCERS_MAX = 10_000
"""Then those that weren't heard of for the longest time give way."""
PRODUCER_EXPIRY_S = 120.0
"""As RocketMQ's brokers, that drop a client which sends no heartbeat for so long."""
NAMED_MAX = 32 * 1024 * 1024
"""About so many characters of memory take the topics and queues that clients name, of all together: of who names more
only the number of queues is kept. A list of all clients has as many."""
NAME_CHARACTERS = 100
"""What a name takes beside its text."""


class Status(NamedTuple):
    """What a client says of itself. `queues`: those that it has, `queue_count` of them, of which some are named.
    `topics`: those that it sends to, some of them. `buffered`: messages that nobody has processed, or that
    aren't stored yet. `stuck`: calls of its listener that took too long, and haven't returned."""

    language: str | None
    version: str | None
    topics: tuple[str, ...]
    queues: tuple[tuple[str, int], ...]
    queue_count: int
    paused: bool
    buffered: int
    stuck: int

    @property
    def named(self) -> int:
        """About so many characters take the topics and queues that it names."""
        names = (*self.topics, *(topic for topic, _ in self.queues))
        return sum([NAME_CHARACTERS + len(name) for name in names])


class Asker(NamedTuple):
    """From where a client is heard of: the user, empty where nobody has to say who he is, and the address."""

    user: str
    address: str | None


class Heard(NamedTuple):
    """A client, as it was heard of last; times by the event loop's clock, `since_ms` by the broker's."""

    asker: Asker
    group: str
    status: Status
    since_ms: int
    heard_s: float


class Clients:
    """Members of groups by group and client id, which are there as long as the group has them; and producers by user
    and client id, so that nobody speaks for another's, which expire."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], Heard] = {}
        self._producers: OrderedDict[tuple[str, str], Heard] = OrderedDict()
        self._named = 0

    def member_said(self, group: str, client_id: str, asker: Asker, status: Status, now_ms: int) -> None:
        """A member of the group says how it is."""
        before = self._members.get((group, client_id))
        status, since_ms = self._kept(before, status, now_ms)
        self._members[group, client_id] = Heard(asker, group, status, since_ms, _now_s())

    def member_left(self, group: str, client_id: str) -> None:
        """It is a member no more."""
        self._forget(self._members.pop((group, client_id), None))

    def _kept(self, before: Heard | None, status: Status, now_ms: int) -> tuple[Status, int]:
        """What is kept of what a client says, and since when it is there."""
        self._forget(before)
        if self._named + status.named > NAMED_MAX:
            status = status._replace(topics=(), queues=())
        self._named += status.named
        return status, now_ms if before is None else before.since_ms

    def _forget(self, heard: Heard | None) -> None:
        self._named -= 0 if heard is None else heard.status.named

    def member(self, group: str, client_id: str) -> Heard | None:
        """What a member has said since the broker started."""
        return self._members.get((group, client_id))

    def producer_said(self, client_id: str, group: str, asker: Asker, status: Status, now_ms: int) -> None:
        """A producer, maybe of a group, says how it is."""
        key = asker.user, client_id
        status, since_ms = self._kept(self._producers.pop(key, None), status._replace(queues=()), now_ms)
        self._producers[key] = Heard(asker, group, status, since_ms, _now_s())
        self._expire()
        while len(self._producers) > PRODUCERS_MAX:
            self._forget(self._producers.popitem(last=False)[1])

    def producer_left(self, client_id: str, asker: Asker) -> bool:
        """It ends; returns whether it was there."""
        heard = self._producers.pop((asker.user, client_id), None)
        self._forget(heard)
        return heard is not None

    def producers(self, group: str | None = None) -> Iterator[tuple[str, Heard]]:
        """All, or those of a group, by client id."""
        self._expire()
        for (_, client_id), heard in list(self._producers.items()):
            if group is None or heard.group == group:
                yield client_id, heard

    def _expire(self) -> None:
        long_ago_s = _now_s() - PRODUCER_EXPIRY_S
        while self._producers and next(iter(self._producers.values())).heard_s < long_ago_s:
            self._forget(self._producers.popitem(last=False)[1])


class Sight(NamedTuple):
    """What one who asks is shown: users and addresses too if `whole`, and of topics those that he `sees`."""

    whole: bool
    sees: Sees


def describe(kind: str, client_id: str, group: str, heard: Heard | None, age_ms: int | None, sight: Sight) -> Any:
    """A client as JSON values: null, what it hasn't said."""
    status = None if heard is None else heard.status
    shown: dict[str, Any] = {
        "client_id": client_id,
        "kind": kind,
        "group": group or None,
        "heartbeat_age_ms": age_ms,
        "since_ms": None if heard is None else heard.since_ms,
    }
    shown |= dict.fromkeys(Status._fields) if status is None else status._asdict()
    if status is not None:
        shown["topics"] = [topic for topic in status.topics if sight.sees(topic)]
    queues = [each for each in (status.queues if status else ()) if sight.sees(each[0])]
    shown["queues"] = [{"topic": topic, "queue_id": number} for topic, number in queues]
    if sight.whole:
        shown |= {"user": heard and heard.asker.user, "address": heard and heard.asker.address}
    return shown


def age_of(heard: Heard) -> int:
    """How long ago it was heard of, in ms."""
    return round((_now_s() - heard.heard_s) * 1000)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
