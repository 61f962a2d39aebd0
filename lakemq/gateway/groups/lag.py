"""How far groups are behind, queue by queue."""

from __future__ import annotations

from asyncio import to_thread
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.http.in_slices import Pause, in_order
from lakemq.model.names import RETRY_PREFIX, is_system, retry_topic
from lakemq.storage.read.plans import QUEUES_AT_ONCE
from lakemq.storage.read.store import Store
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Member
from lakemq.storage.state.topics import Queue

BROADCASTING = "broadcasting"


class QueueLag(NamedTuple):
    """How far a group is behind in one queue. `offset`: the committed one, or of what it receives the
    first that is not finished; None when there is neither. `lag` None: not known, as the members of a
    group of model broadcasting keep their offsets themselves."""

    topic: str
    queue_id: int
    offset: int | None
    min_offset: int
    max_offset: int
    lag: int | None


class _Begin(NamedTuple):
    """Where a group begins with a topic's queues that it has no offset of. `member`: by whom; `by_time`: where the
    queues stood at that member's time, of those that were there as it was looked up."""

    member: Member | None
    by_time: dict[Queue, int]


def total(group: Group, lags: Iterable[QueueLag]) -> int | None:
    """All together, as far as they are known; None when none is."""
    known = [each.lag for each in lags if each.lag is not None]
    return sum(known) if known or group.model != BROADCASTING else None


class Lags:
    """Looks up lags: `max_offset` less the offset where the group goes on."""

    def __init__(self, store: Store, cold: ColdReader) -> None:
        self._log = store.log
        self._plans = store.plans
        self._cold = cold

    async def topics_of(self, group: Group) -> list[str]:
        """The topics that the group consumes or has consumed, the system's last; no name of one that is not there."""
        names = group.topics | group.offsets.keys() | self._log.routing.receipts.topics_of(group.name)
        there = [name for name in names if self._log.topics.find(name) is not None]
        return await in_order(there, key=lambda name: (is_system(name), name))

    async def all(self, group: Group, topics: Iterable[str]) -> list[QueueLag]:
        """The group's lag in all queues of these topics; others go on meanwhile."""
        pause, found = Pause(), list[QueueLag]()
        async for each in self.of(group, topics):
            found.append(each)
            await pause()
        return found

    async def of(self, group: Group, topics: Iterable[str], *, looks: bool = True) -> AsyncIterator[QueueLag]:
        """The group's lag in all queues of these topics, as it is when it is asked for. Not `looks`: where a queue
        begins in the lake is looked for only where the group goes on there. Raises as `Plans.offsets_at_time`."""
        for topic in topics:
            begin = await self._begin_in(group, topic, self._queues(topic))
            for queue in self._queues(topic):
                yield self._lag(group, queue, begin, looks)

    async def of_queue(self, group: Group, topic: str, queue_id: int) -> QueueLag | None:
        """The group's lag in one queue; None: there is none. Raises as `of`."""

        def wanted() -> list[Queue]:
            return [each for each in self._queues(topic) if each.queue_id == queue_id]

        begin = await self._begin_in(group, topic, wanted())
        return next((self._lag(group, queue, begin, looks=True) for queue in wanted()), None)

    def _queues(self, topic: str) -> Sequence[Queue]:
        found = self._log.topics.find(topic)
        return [] if found is None else found.queues

    async def _begin_in(self, group: Group, topic: str, queues: Sequence[Queue]) -> _Begin:
        """How the group begins with these queues. Where they stood at a time may be looked up in a thread: all else
        is to be read after that."""
        member = self._beginner(group, topic)
        if member is None or member.consume_from != "timestamp":
            return _Begin(member, {})
        pause, by_time = Pause(), dict[Queue, int]()
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            some = queues[first : first + QUEUES_AT_ONCE]
            found = await self._plans.offsets_at_time(some, member.consume_timestamp_ms or 0, to_thread)
            by_time.update(zip(some, found, strict=True))
            await pause()
        return _Begin(self._beginner(group, topic), by_time)

    @staticmethod
    def _beginner(group: Group, name: str) -> Member | None:
        """By whom the group begins with a topic that it has no offsets of."""
        anew = name not in group.offsets and not name.startswith(RETRY_PREFIX)
        return _a_subscriber(group, name) if anew else None

    def _lag(self, group: Group, queue: Queue, begins: _Begin, looks: bool) -> QueueLag:
        received = self._received(group, queue)
        offset = group.find_offset(queue.topic, queue.queue_id) if received is None else received
        in_log = not looks and offset is not None and offset >= queue.begin_offset
        first = queue.begin_offset if in_log else self._cold.known_min_offset(queue)
        begin = _beginning(queue, first, begins) if offset is None else offset
        known = received is not None or group.model != BROADCASTING
        lag = queue.visible_from(max(begin, first)) if known else None
        return QueueLag(queue.topic, queue.queue_id, offset, first, queue.end_offset, lag)

    def _received(self, group: Group, queue: Queue) -> int | None:
        """The first offset of what the group receives that is not finished."""
        receipts = self._log.routing.receipts
        if queue.topic == retry_topic(group.name):
            return receipts.retry_floor(group.name, queue.queue_id)
        return receipts.floor(group.name, queue.topic, queue.queue_id)


def _beginning(queue: Queue, first: int, begins: _Begin) -> int:
    """Where the group begins with a queue that it has no offset of. What a member says counts for a group without
    offsets in the topic; a new queue and the retry topic are consumed from their first message."""
    member = begins.member
    if member is None or member.consume_from == "first":
        return first
    if member.consume_from == "last":
        return queue.end_offset
    return min(begins.by_time.get(queue, first), queue.end_offset)


def _a_subscriber(group: Group, topic: str) -> Member | None:
    if not group.consumes(topic):
        return None
    ids = [name for name, each in group.members.items() if _subscribes(each, topic)]
    return group.members[min(ids)] if ids else None


def _subscribes(member: Member, topic: str) -> bool:
    """Whether one of its subscriptions, which are sorted, is to the topic."""
    at = bisect_left(member.subscriptions, (topic,))
    return at < len(member.subscriptions) and member.subscriptions[at].topic == topic
