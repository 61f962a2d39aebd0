"""Who is connected, as clients say it themselves with their heartbeats: in memory, and for people who look.

Nothing is decided by it, so it is forgotten at a restart, and clients say it again within half a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

from lakemq.gateway.groups.differences import Sees
from lakemq.gateway.groups.fair_table import FairTable
from lakemq.model.network import network_of

PRODUCERS_MAX = RECEIVERS_MAX = 10_000
"""Then of the user, or address, that has most the one gives way that wasn't heard of for the longest time."""
EXPIRY_S = 120.0
"""As RocketMQ's brokers, that drop a client which sends no heartbeat for so long."""
HEARD_S = 1.0
"""So long a receiver is as well known as after its last request."""
TOPICS_MAX = 5
"""Of one receiver: the last so many."""
NAMED_MAX = 32 * 1024 * 1024
"""About so many characters of memory take the topics and queues that clients name, of all together: of who names more
only the number of queues is kept. A list of all clients has as many."""
NAME_CHARACTERS = 100
"""What a name takes beside its text."""


class Status(NamedTuple):
    """What a client says of itself. `queues`: those that it has, `queue_count` of them, of which some are named.
    `topics`: those that it sends to, or receives, some of them. `buffered`: messages that nobody has processed, or that
    aren't stored yet. `stuck`: calls of its listener that took too long, and haven't returned."""

    language: str | None
    version: str | None
    topics: tuple[str, ...]
    queues: tuple[tuple[str, int], ...]
    queue_count: int | None
    paused: bool | None
    buffered: int | None
    stuck: int | None

    @property
    def named(self) -> int:
        """About so many characters take the topics and queues that it names."""
        names = (*self.topics, *(topic for topic, _ in self.queues))
        return sum([NAME_CHARACTERS + len(name) for name in names])


class Asker(NamedTuple):
    """From where a client is heard of: the user, empty where nobody has to say who he is, and the address."""

    user: str
    address: str | None

    @property
    def owner(self) -> str:
        """Who has its entries: all that a user has are one's, as are all of one address, or of one network of IPv6."""
        return self.user or f"@{network_of(self.address)}"


class Heard(NamedTuple):
    """A client, as it was heard of last; times by the event loop's clock, `since_ms` by the broker's."""

    asker: Asker
    group: str
    status: Status
    since_ms: int
    heard_s: float


class Receiving:
    """One who receives without being a member, as far as user and address tell one from another. Nothing but that it
    receives is known of it."""

    __slots__ = ("asker", "group", "heard_s", "since_ms", "topics")

    def __init__(self, asker: Asker, group: str, since_ms: int) -> None:
        self.asker = asker
        self.group = group
        self.since_ms = since_ms
        self.heard_s = 0.0
        self.topics: dict[str, None] = {}

    @property
    def heard(self) -> Heard:
        """As others are told of."""
        status = Status(None, None, tuple(self.topics), (), None, None, None, None)
        return Heard(self.asker, self.group, status, self.since_ms, self.heard_s)


class Clients:
    """Members of groups by group and client id, which are there as long as the group has them; and producers by user
    and client id, so that nobody speaks for another's, and those who receive by group, user and address: both
    expire."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], Heard] = {}
        self._producers: FairTable[str, tuple[str, str], Heard] = FairTable(PRODUCERS_MAX)
        self._receivers: FairTable[str, tuple[str, Asker], Receiving] = FairTable(RECEIVERS_MAX)
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
        status, since_ms = self._kept(self._producers.pop(key), status._replace(queues=()), now_ms)
        self._expire()
        self._forget(self._producers.put(asker.owner, key, Heard(asker, group, status, since_ms, _now_s())))

    def producer_left(self, client_id: str, asker: Asker) -> bool:
        """It ends; returns whether it was there."""
        heard = self._producers.pop((asker.user, client_id))
        self._forget(heard)
        return heard is not None

    def producers(self, group: str | None = None) -> Iterator[tuple[str, Heard]]:
        """All, or those of a group, by client id."""
        self._expire()
        for (_, client_id), heard in self._producers.items():
            if group is None or heard.group == group:
                yield client_id, heard

    def received(self, group: str, topic: str, asker: Asker, now_ms: int) -> None:
        """Somebody receives messages of the topic for the group."""
        key, now_s = (group, asker), _now_s()
        found = self._receivers.get(key)
        if found is None:
            self._expire()
            found = Receiving(asker, group, now_ms)
        elif now_s - found.heard_s < HEARD_S and topic in found.topics:
            return
        found.heard_s = now_s
        found.topics.pop(topic, None)
        found.topics[topic] = None
        if len(found.topics) > TOPICS_MAX:
            del found.topics[next(iter(found.topics))]
        self._receivers.put(asker.owner, key, found)

    def receivers(self, group: str | None = None) -> Iterator[Heard]:
        """All who receive, or those of a group."""
        self._expire()
        for found in self._receivers.values():
            if group is None or found.group == group:
                yield found.heard

    def group_deleted(self, group: str) -> None:
        """Who has received for the group is of no later one of its name; who goes on is told of anew."""
        for key in [key for key, _ in self._receivers.items() if key[0] == group]:
            self._receivers.pop(key)

    def _expire(self) -> None:
        long_ago_s = _now_s() - EXPIRY_S
        while (oldest := self._producers.oldest()) is not None and oldest[1].heard_s < long_ago_s:
            self._forget(self._producers.pop(oldest[0]))
        while (last := self._receivers.oldest()) is not None and last[1].heard_s < long_ago_s:
            self._receivers.pop(last[0])


class Sight(NamedTuple):
    """What one who asks is shown: users and addresses too if `whole`, and of topics those that he `sees`."""

    whole: bool
    sees: Sees


def describe(
    kind: str, client_id: str | None, group: str, heard: Heard | None, age_ms: int | None, sight: Sight
) -> Any:
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
