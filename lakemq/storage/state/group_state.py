"""Consumer groups as the log's records make them: members, offsets and locks.

Every change is a record, a message in `GROUP_TOPIC`: column `group`, the kind of change as its tag,
and a JSON body. `GroupState.apply` is the one way in, while serving and while recovering; each record
says itself under which condition it counts, so that two of one frame can't both win.
No record says a time: after a restart whoever was there counts as heard of just now. When a group began with a
topic is the time of the frame that says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from lakemq.model.errors import ConsumeDisabled
from lakemq.model.names import GROUP_TOPIC, RETRY_PREFIX, retry_topic
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta
from lakemq.storage.state.bitmaps import pack_numbers, unpack_numbers
from lakemq.storage.state.member import Member, Subscription, member_fields, member_of, size_of, topics_of
from lakemq.storage.state.steps import Steps, copy_each
from lakemq.storage.state.watchers import Watchers

T = TypeVar("T", bound=Hashable)
QueueKey = tuple[str, int]
"""A queue: topic and queue id."""


class Lock(NamedTuple):
    """Who has a queue. `grant`, the position of the record that gave it, tells it from a later one."""

    client_id: str
    grant: int


class Group:
    """One group. `model`: that of its members, and of those that it had last; None before the first.
    `generation` moves when its members or their queues do, `resets` when its offsets are reset.
    `offsets`: of each topic, by queue id, the next offset to consume. `kinds`: which subscriptions its
    members have, and how many have just these. `since_ms`: when it got the first offset of a topic that it has offsets
    of; unknown for those of logs from before this was kept."""

    __slots__ = (
        "_subscribed",
        "consume_enabled",
        "generation",
        "kinds",
        "locked",
        "locks",
        "members",
        "model",
        "name",
        "offsets",
        "paused",
        "resets",
        "since_ms",
    )

    def __init__(self, name: str, generation: int, resets: int = 0) -> None:
        self.name = name
        self.model: str | None = None
        self.consume_enabled = True
        """Whether anything is handed out to it."""
        self.paused: set[str] = set()
        """The members that are to consume nothing now, by client id."""
        self.generation = generation
        self.resets = resets
        self.members: dict[str, Member] = {}
        self.offsets: dict[str, dict[int, int]] = {}
        self.since_ms: dict[str, int] = {}
        self.locks: dict[QueueKey, Lock] = {}
        self.locked: Counter[str] = Counter()
        """How many queues of each topic are locked."""
        self.kinds: Counter[tuple[Subscription, ...]] = Counter()
        # How many members subscribe to each topic: a group of thousands starts one by one.
        self._subscribed: Counter[str] = Counter()

    @property
    def topics(self) -> set[str]:
        """What the members subscribe to, and the group's retry topic."""
        return {*self._subscribed, retry_topic(self.name)}

    def consumes(self, topic: str) -> bool:
        """Whether the topic is one of `topics`."""
        return topic in self._subscribed or topic == retry_topic(self.name)

    def uses(self, topic: str) -> bool:
        """Whether the group has offsets or locks of the topic, or members that subscribe to it."""
        return topic in self.offsets or topic in self._subscribed or topic in self.locked

    @property
    def used(self) -> set[str]:
        """The topics that it `uses`."""
        return {*self.offsets, *self._subscribed, *self.locked}

    def lock(self, queue: QueueKey, lock: Lock) -> None:
        """The queue is locked."""
        self.locks[queue] = lock
        self.locked[queue[0]] += 1

    def unlock(self, queue: QueueKey) -> None:
        """The queue is free."""
        del self.locks[queue]
        _count_down(self.locked, (queue[0],))

    @property
    def is_empty(self) -> bool:
        """Whether nothing but its name would be lost with it."""
        return not self.members and not self.offsets and not self.locks and self.consume_enabled

    def copy(self) -> Group:
        """The group as it is now, to be dumped."""
        copied = Group.__new__(Group)  # the counts aren't dumped, and it takes long to make them
        copied.name, copied.generation, copied.resets, copied.model = (
            self.name,
            self.generation,
            self.resets,
            self.model,
        )
        copied.consume_enabled, copied.paused = self.consume_enabled, self.paused.copy()
        copied.members, copied.locks = self.members.copy(), self.locks.copy()
        copied.offsets = {topic: offsets.copy() for topic, offsets in self.offsets.items()}
        copied.since_ms = self.since_ms.copy()
        return copied

    def find_offset(self, topic: str, queue_id: int) -> int | None:
        """The committed offset of a queue, or None."""
        return self.offsets.get(topic, {}).get(queue_id)

    def put(self, client_id: str, member: Member) -> None:
        """The client is a member, and it is so."""
        paused = client_id in self.paused
        self.drop(client_id)
        if paused:
            self.paused.add(client_id)
        self.members[client_id] = member
        self.model = member.model
        self.kinds[member.subscriptions] += 1
        self._subscribed.update(subscription.topic for subscription in member.subscriptions)

    def accepts(self, client_id: str, member: Member) -> bool:
        """Whether the client may be such a member: all others consume by the same model."""
        others = len(self.members) - (client_id in self.members)
        return not others or member.model == self.model

    def drop(self, client_id: str) -> Member | None:
        """The client is no member; returns what it was."""
        member = self.members.pop(client_id, None)
        self.paused.discard(client_id)
        if member is not None:
            _count_down(self.kinds, (member.subscriptions,))
            _count_down(self._subscribed, (subscription.topic for subscription in member.subscriptions))
        return member


def _count_down(counts: Counter[T], keys: Iterable[T]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]


STEP = 100
"""So many groups are copied in one step."""
_COLUMNS = ("group", "tag", "body")


class GroupState:
    """All consumer groups of a log."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        # By topic, the names of the groups that use it: a topic that comes or goes concerns no others.
        self._using: dict[str, set[str]] = {}
        self._empty: dict[str, None] = {}
        # No group that was forgotten had as high a generation, or more resets: one that comes again
        # goes on from here.
        self._generation = 0
        self._resets = 0
        self.member_count = 0
        self.member_characters = 0
        """About so long are the members' names and subscriptions together."""
        self.offset_count = 0
        self.disabled: set[str] = set()
        """The names of the groups that consume nothing now."""
        self.watchers = Watchers()
        """Who waits for messages of a group, to be told that it consumes nothing now."""
        self.on_move: Callable[[Group], None] = lambda group: None
        """The group's generation has moved."""
        self.on_member: Callable[[str, str, bool], None] = lambda group, client_id, there: None
        self.on_lock: Callable[[str, QueueKey, bool], None] = lambda group, queue, held: None
        self.on_delete: Callable[[str], None] = lambda group: None
        """The group was deleted; also while recovering."""
        self.on_idle: Callable[[str, str], None] = lambda group, topic: None
        """The group's place in the topic is not used and may be forgotten; also while recovering."""
        self.on_reset: Callable[[str, str, dict[int, int]], None] = lambda group, topic, offsets: None
        """The group's offsets of a topic were reset to these, by queue id; also while recovering."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def find(self, name: str) -> Group | None:
        """The group, or None."""
        return self._groups.get(name)

    def check_enabled(self, name: str | None) -> None:
        """Raise `ConsumeDisabled` if the group, maybe none, consumes nothing now."""
        if name in self.disabled:
            raise ConsumeDisabled(f"group {name!r} consumes nothing now: an operator has paused it")

    def users(self, topic: str) -> set[str]:
        """The names of the groups that use the topic."""
        return set(self._using.get(topic, ()))

    def empty(self) -> Iterator[str]:
        """The groups of which nothing but the name is kept, in the order in which they came to be so."""
        return iter(self._empty)

    def _track(self, group: Group, topics: Iterable[str]) -> None:
        """The group has come to use some of these topics, or uses them no more."""
        name = group.name
        for topic in topics:
            if group.uses(topic):
                self._using.setdefault(topic, set()).add(name)
            elif topic in self._using:
                self._using[topic].discard(name)
                if not self._using[topic]:
                    del self._using[topic]
        if not group.is_empty:
            self._empty.pop(name, None)
        elif name in self._groups:
            self._empty.setdefault(name)

    # A frame's effect ------------------------------------------------------------------------

    def apply(self, meta: Meta, content: Content) -> None:
        """Bring the state from before the frame to after it."""
        for run in meta.runs:
            if run.topic == GROUP_TOPIC:
                columns = [content.values(name, run.row, run.count) for name in _COLUMNS]
                rows = zip(*columns, strict=True)
                for position, (name, kind, body) in enumerate(rows, meta.first_position + run.row):
                    self._change(name, kind, json.loads(body), position, meta.store_time_ms)

    def _change(self, name: str, kind: str, content: dict[str, Any], position: int, time_ms: int) -> None:
        if kind in ("forget", "delete", "idle"):
            self._lessen(name, kind, content)
            return
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, self._generation, self._resets)
            self._empty[name] = None
        if kind == "join":
            self._join(group, content)
        elif kind == "leave":
            self._leave(group, content["client_id"])
        elif kind == "offsets":
            self._commit(group, content, time_ms)
        elif kind == "reset":
            self._reset(group, content["offsets"], time_ms)
        elif kind == "settings":
            self._set(group, content["consume_enabled"])
        elif kind == "lock":
            self._lock(group, content, position)
        else:
            assert kind == "unlock", kind
            self._unlock(group, content)

    def _lessen(self, name: str, kind: str, content: dict[str, Any]) -> None:
        if kind == "forget":
            self._forget(name)
        elif kind == "delete":
            self._delete(name)
        else:
            self.on_idle(name, content["topic"])

    def _forget(self, name: str) -> None:
        group = self._groups.get(name)
        if group is not None and group.is_empty:
            self._drop(group)

    def _delete(self, name: str) -> None:
        group = self._groups.get(name)
        if group is not None and group.members:
            return
        if group is not None:
            self.offset_count -= sum(len(offsets) for offsets in group.offsets.values())
            for queue in group.locks:
                self.on_lock(name, queue, False)
            self._drop(group)
            self.on_move(group)
        self.on_delete(name)

    def _drop(self, group: Group) -> None:
        del self._groups[group.name]
        self._empty.pop(group.name, None)
        self.disabled.discard(group.name)
        self._track(Group(group.name, 0), group.used)
        self._generation = max(self._generation, group.generation + 1)
        self._resets = max(self._resets, group.resets)

    def _move(self, group: Group) -> None:
        group.generation += 1
        self.on_move(group)

    def _set(self, group: Group, consume_enabled: bool) -> None:
        if consume_enabled == group.consume_enabled:
            return
        group.consume_enabled = consume_enabled
        (self.disabled.discard if consume_enabled else self.disabled.add)(group.name)
        self._track(group, ())
        self._move(group)  # its members hear of it
        if not consume_enabled:
            self.watchers.wake(group.name)

    def _join(self, group: Group, content: dict[str, Any]) -> None:
        client_id, member = content["client_id"], member_of(content)
        if "consume_enabled" in content:
            self._pause(group, client_id, not content["consume_enabled"])
            return
        if not group.accepts(client_id, member):
            return
        known = group.members.get(client_id)
        if known is None:
            self.member_count += 1
        if known != member:
            self.member_characters += size_of(client_id, member) - (size_of(client_id, known) if known else 0)
            group.put(client_id, member)
            self._track(group, topics_of(known) | topics_of(member))
            self._move(group)
        self.on_member(group.name, client_id, True)

    def _pause(self, group: Group, client_id: str, paused: bool) -> None:
        """Have the client, if it is a member still, consume nothing, or again."""
        if client_id in group.members and paused != (client_id in group.paused):
            (group.paused.add if paused else group.paused.discard)(client_id)
            self._move(group)

    def _leave(self, group: Group, client_id: str) -> None:
        member = group.drop(client_id)
        if member is None:
            return
        self.member_count -= 1
        self.member_characters -= size_of(client_id, member)
        freed = [queue for queue, lock in group.locks.items() if lock.client_id == client_id]
        for queue in freed:
            group.unlock(queue)
            self.on_lock(group.name, queue, False)
        self._track(group, topics_of(member) | {topic for topic, _ in freed})
        self.on_member(group.name, client_id, False)
        self._move(group)

    def _commit(self, group: Group, content: dict[str, Any], time_ms: int) -> None:
        # A commit from before a reset would undo it.
        if content.get("resets", group.resets) >= group.resets:
            self._set_offsets(group, content["offsets"], content.get("if_absent", False), time_ms)

    def _reset(self, group: Group, offsets: dict[str, list[list[int]]], time_ms: int) -> None:
        group.resets += 1
        self._set_offsets(group, offsets, False, time_ms)
        for topic, pairs in offsets.items():
            self.on_reset(group.name, topic, {pair[0]: pair[1] for pair in pairs})
        self._move(group)

    def _set_offsets(self, group: Group, offsets: dict[str, list[list[int]]], if_absent: bool, time_ms: int) -> None:
        for topic, pairs in offsets.items():
            if topic not in group.offsets:
                group.since_ms[topic] = time_ms
            known = group.offsets.setdefault(topic, {})
            before = len(known)
            for queue_id, offset in pairs:
                if not if_absent or queue_id not in known:
                    known[queue_id] = offset
            self.offset_count += len(known) - before
        self._track(group, offsets)

    def _lock(self, group: Group, content: dict[str, Any], position: int) -> None:
        lock = Lock(content["client_id"], position)
        for topic, queue_id in content["queues"]:
            if (topic, queue_id) not in group.locks:
                group.lock((topic, queue_id), lock)
                self.on_lock(group.name, (topic, queue_id), True)
        self._track(group, {topic for topic, _ in content["queues"]})

    def _unlock(self, group: Group, content: dict[str, Any]) -> None:
        for topic, queue_id, grant in content["queues"]:
            lock = group.locks.get((topic, queue_id))
            if lock is not None and lock.grant == grant:
                group.unlock((topic, queue_id))
                self.on_lock(group.name, (topic, queue_id), False)
        self._track(group, {topic for topic, _, _ in content["queues"]})

    def topic_changed(self, topic: str, queues: int) -> None:
        """The topic has so many queues now, not as many as before; 0: it was deleted."""
        names = self.users(topic)
        if topic.startswith(RETRY_PREFIX):
            names |= {topic.removeprefix(RETRY_PREFIX)} & self._groups.keys()
        for group in [self._groups[name] for name in names]:
            if not queues:
                self.offset_count -= len(group.offsets.pop(topic, ()))
                group.since_ms.pop(topic, None)
                if topic in group.locked:
                    for queue in [queue for queue in group.locks if queue[0] == topic]:
                        group.unlock(queue)
                        self.on_lock(group.name, queue, False)
                self._track(group, (topic,))
            if group.consumes(topic):
                self._move(group)

    # Keeping ---------------------------------------------------------------------------------

    def copy_in_steps(self) -> Steps[GroupState]:
        """All of it as it is now, to be dumped, where no group changes between the steps."""
        copied = GroupState()
        copied._generation, copied._resets = self._generation, self._resets
        copied._groups = yield from copy_each(self._groups, Group.copy, STEP)
        return copied

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return {
            "generation": self._generation,
            "resets": self._resets,
            "groups": {group.name: _dump_group(group) for group in self._groups.values()},
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said. A log from before there were groups has none."""
        self._generation, self._resets = dumped.get("generation", 0), dumped.get("resets", 0)
        self._groups = {name: _restore_group(name, each) for name, each in dumped.get("groups", {}).items()}
        self.member_count = sum(len(group.members) for group in self)
        self.member_characters = sum(size_of(*each) for group in self for each in group.members.items())
        self.offset_count = sum(len(offsets) for group in self for offsets in group.offsets.values())
        self.disabled = {group.name for group in self if not group.consume_enabled}
        self._using, self._empty = {}, {}
        for group in self:
            self._track(group, group.used)


def _dump_group(group: Group) -> dict[str, Any]:
    return {
        "generation": group.generation,
        "resets": group.resets,
        "model": group.model,
        "consume_enabled": group.consume_enabled,
        "members": {client_id: member_fields(member) for client_id, member in group.members.items()},
        "offsets": {
            topic: [pack_numbers(offsets), pack_numbers(offsets.values())] for topic, offsets in group.offsets.items()
        },
        "locks": [[*queue, *lock] for queue, lock in group.locks.items()],
        "since_ms": group.since_ms,
        **({"paused": sorted(group.paused)} if group.paused else {}),
    }


def _restore_group(name: str, dumped: dict[str, Any]) -> Group:
    group = Group(name, dumped["generation"], dumped["resets"])
    for client_id, fields in dumped["members"].items():
        group.put(client_id, member_of(fields))
    group.model = dumped["model"]
    group.consume_enabled = dumped.get("consume_enabled", True)  # a log from before this could be said
    for topic, (queue_ids, offsets) in dumped["offsets"].items():
        group.offsets[topic] = dict(zip(unpack_numbers(queue_ids), unpack_numbers(offsets), strict=True))
    for topic, queue_id, client_id, grant in dumped["locks"]:
        group.lock((topic, queue_id), Lock(client_id, grant))
    group.since_ms = dict(dumped.get("since_ms", {}))
    group.paused.update(dumped.get("paused", ()))
    return group
