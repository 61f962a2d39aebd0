"""All consumer groups of one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.gaps import Gaps
from lakemq.gateway.groups.differences import Sees, subscriptions_of
from lakemq.gateway.groups.group_numbers import GroupNumbers, Numbers
from lakemq.gateway.groups.lag import Lags, QueueLag, total
from lakemq.gateway.groups.locks import Locks
from lakemq.gateway.groups.members import Members
from lakemq.gateway.groups.moves import Moves
from lakemq.gateway.groups.offsets import Offsets
from lakemq.gateway.groups.records import EnsureTopic, Records
from lakemq.gateway.http.in_slices import Pause, all_of, in_order
from lakemq.gateway.http.part_of_list import PartOfList
from lakemq.gateway.work.waiters import Wait
from lakemq.model.errors import GroupInUse, GroupNotFound
from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, dead_letter_topic, retry_topic
from lakemq.settings import Groups as Limits
from lakemq.storage.read.store import Store
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Member, member_fields
from lakemq.storage.state.receipts import Receipts

EXPRESSIONS_MAX = 8
"""Of one group's subscriptions to a topic, that a list shows."""


class Groups:
    """Members, offsets and locks of groups, and how the groups are. `start` once the log is open."""

    def __init__(
        self,
        limits: Limits,
        store: Store,
        cold: ColdReader,
        gaps: Gaps,
        ensure_topic: EnsureTopic,
        wait: Wait,
    ) -> None:
        log = self._log = store.log
        self._records = Records(log, ensure_topic, limits.groups_max)
        self._lags = Lags(store, cold)
        self._gaps = gaps
        self._numbers = GroupNumbers(log, store.reader, self._lags)
        self.members = Members(self._records, limits, wait)
        self.moves = Moves()
        self.offsets = Offsets(self._records, limits, log, cold, self.moves)
        self.locks = Locks(self._records, limits)

    def start(self) -> None:
        """Take up what the log has."""
        self.members.start()
        self.locks.start()

    async def close(self) -> None:
        """Let nothing expire any more; the next process counts anew."""
        await self.members.close()
        await self.locks.close()

    def find(self, name: str) -> Group:
        """The group: one that has had members, offsets or locks, that receives, or that has retried
        messages. Raises `GroupNotFound`."""
        group = self._records.state.find(name)
        if group is not None:
            return group
        topics = self._log.topics
        retried = topics.find(retry_topic(name)) is not None or topics.find(dead_letter_topic(name)) is not None
        if not retried and not self._receipts.topics_of(name):
            raise GroupNotFound(f"there is no group {name!r}")
        return Group(name, 0)

    @property
    def _receipts(self) -> Receipts:
        return self._log.routing.receipts

    async def describe(self, name: str, sees: Sees) -> dict[str, Any]:
        """All of a group: who is in it, what they subscribe to, and how far it is behind, in topics that who asks
        `sees`; what may be long is an iterator. Raises `GroupNotFound`."""
        group = self.find(name)
        head = {"group": name, "model": group.model, "consume_enabled": group.consume_enabled}
        head |= {"generation": group.generation, "resets": group.resets}
        different, subscriptions = await self.members.differences(group), await subscriptions_of(group)
        topics = await self._lags.topics_of(group)
        seen = await all_of(topic for topic in topics if sees(topic))
        members, locks = list(group.members.items()), list(group.locks.items())
        members, locks = await in_order(members, key=_first), await in_order(locks, key=_first)
        lags = await self._lags.all(group, seen)
        return {
            **head,
            "members": (client_id for client_id, _ in members),
            "clients": (
                {
                    "client_id": client_id,
                    **_seen_fields(member, sees),
                    "heartbeat_age_ms": self.members.renewals.age_ms((name, client_id)),
                }
                for client_id, member in members
            ),
            "subscriptions": (each._asdict() for each in subscriptions if sees(each.topic)),
            "subscriptions_differ": bool(different),
            "differences": [each for each in different if sees(each["topic"])],
            "lag": (each._asdict() for each in lags),
            "lag_total": total(group, lags),
            **_partial(seen, topics),
            "gaps": [each._asdict() for each in self._gaps.of(name) if sees(each.topic)],
            "locks": (
                {"topic": topic, "queue_id": queue_id, "client_id": lock.client_id}
                for (topic, queue_id), lock in locks
                if sees(topic)
            ),
        }

    async def using(self, topic: str) -> list[str]:
        """The names of the groups that subscribe to the topic, have offsets of it or receive it, sorted."""
        names = self._receipts.groups_of(topic)
        names |= {group.name for group in await all_of(list(self._records.state)) if group.uses(topic)}
        return await in_order(list(names))

    async def consumer(self, name: str, topic: str) -> dict[str, Any]:
        """How the group consumes one topic, in short. Raises `GroupNotFound`."""
        group = self.find(name)
        lags = await self._lags.all(group, [topic])
        wanted = [each.expression for each in await subscriptions_of(group) if each.topic == topic]
        return {
            "group": name,
            "model": group.model,
            "consume_enabled": group.consume_enabled,
            "member_count": len(group.members),
            "subscribed": group.consumes(topic),
            "expressions": wanted[:EXPRESSIONS_MAX],
            "lag": total(group, lags),
        }

    async def lag_in(self, name: str, topic: str, queue_id: int) -> QueueLag | None:
        """How far the group is behind in one queue; None where that is not there. Raises `GroupNotFound`."""
        return await self._lags.of_queue(self.find(name), topic, queue_id)

    def with_members(self) -> list[str]:
        """The names of the groups that have members."""
        return [group.name for group in self._records.state if group.members]

    def is_there(self, name: str) -> bool:
        """Whether the log knows the group now."""
        return self._records.state.find(name) is not None

    async def list(self, sees: Sees, part: PartOfList) -> tuple[list[dict[str, Any]], str | None]:
        """That part of all groups in short, sorted by name, of topics that who asks `sees`; and after which name the
        next page begins."""
        found: list[dict[str, Any]] = []
        names, following = await part.of(self._names())
        for name in names:
            found.append(await self._describe_short(self._records.state.find(name) or Group(name, 0), sees))
            await asyncio.sleep(0)
        return found, following

    @property
    def count(self) -> int:
        """How many groups `list` lists."""
        return len(self._names())

    async def numbers(self) -> dict[str, Numbers]:
        """What is told of each to who watches, by name, in their order."""
        pause, names = Pause(), self._known_names()
        for topic in list(self._log.topics):
            _add_group_of(topic.name, names)
            await pause()
        return await self._numbers.look(await in_order(list(names)))

    async def delete(self, name: str) -> None:
        """Delete the group with all that it has: offsets, locks, how far it has received, its retries and
        its dead letters. All of that is one frame: after a crash all of it is gone, or nothing.

        Raises `GroupNotFound`, `GroupInUse` while it has members, `StoreUnwritable`.
        """
        self._check_unused(name)
        async with self.moves.moving(name):
            self._check_unused(name)  # it may have been waited for receipts
            topics = [each for each in (retry_topic(name), dead_letter_topic(name)) if self._log.topics.find(each)]
            await self._records.delete(name, topics)
        self._gaps.forget(name)
        self.members.clients.group_deleted(name)

    def _check_unused(self, name: str) -> None:
        """Raises `GroupNotFound`, `GroupInUse`."""
        group = self.find(name)
        if group.members or self.members.is_joined(name):
            raise GroupInUse(f"group {name!r} has members, {min(group.members, default='one that comes')!r} for one")

    async def enable(self, name: str, consume_enabled: bool) -> Group:
        """Have the group, which is made if it isn't there, consume or not: what is handed out already may be finished.
        Raises `FlowControl` when it is one group too many, `StoreUnwritable`."""
        known = self._records.state.find(name)
        # What another one has asked for meanwhile comes before this, which is the last word.
        if known is None or known.consume_enabled != consume_enabled or self._records.is_changing(name):
            await self._records.append([(name, "settings", {"consume_enabled": consume_enabled})])
        return self.find(name)

    async def forget_place(self, name: str, topic: str) -> None:
        """Forget how far the group has received in the topic, unless something is out. Raises `StoreUnwritable`."""
        await self._records.forget_place(name, topic)

    def _names(self) -> set[str]:
        names = self._known_names()
        for topic in self._log.topics:
            _add_group_of(topic.name, names)
        return names

    def _known_names(self) -> set[str]:
        return {group.name for group in self._records.state} | self._receipts.groups()

    async def _describe_short(self, group: Group, sees: Sees) -> dict[str, Any]:
        topics = {*group.topics, *group.offsets, *self._receipts.topics_of(group.name)} - {retry_topic(group.name)}
        there = await self._lags.topics_of(group)
        seen = await all_of(topic for topic in there if sees(topic))
        lags = await self._lags.all(group, seen)
        return {
            "group": group.name,
            "generation": group.generation,
            "member_count": len(group.members),
            "topics": await in_order([topic for topic in topics if sees(topic)]),
            "subscriptions_differ": bool(await self.members.differences(group)),
            "model": group.model,
            "consume_enabled": group.consume_enabled,
            "lag_total": total(group, lags),
            **_partial(seen, there),
        }


def _add_group_of(topic: str, names: set[str]) -> None:
    """Add the group whose retries or dead letters the topic has, if it is such a one."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            names.add(topic.removeprefix(prefix))


def _partial(seen: Sequence[str], topics: Sequence[str]) -> dict[str, bool]:
    """That there are topics which aren't shown."""
    return {"partial": True} if len(seen) < len(topics) else {}


def _seen_fields(member: Member, sees: Sees) -> dict[str, Any]:
    seen = tuple(each for each in member.subscriptions if sees(each.topic))
    return member_fields(member._replace(subscriptions=seen))


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]
