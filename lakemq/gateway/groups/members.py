"""Members of groups: heartbeats, leaving, and waiting for others to come or go."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

import orjson

from lakemq.gateway.groups.clients import Clients
from lakemq.gateway.groups.differences import Sees, differences
from lakemq.gateway.groups.notices import Notices
from lakemq.gateway.groups.records import Records
from lakemq.gateway.groups.renewals import Renewals
from lakemq.gateway.work.waiters import Wait
from lakemq.model.errors import ClientNotFound, FlowControl, GroupModelDiffers, GroupNotFound
from lakemq.settings import Groups as Limits
from lakemq.storage.state.group_state import Group, GroupState
from lakemq.storage.state.member import Member, member_fields, size_of
from lakemq.web.asgi import Client

ANSWERS_BYTES_MAX = 16 * 1024 * 1024
"""Of all answers that are kept."""


class _Answer(NamedTuple):
    """`found`: the differences that stand in it, by topic."""

    generation: int
    fields: dict[str, Any]
    content: bytes
    found: list[dict[str, Any]]


class Members:
    """The members of one broker's groups."""

    def __init__(self, records: Records, limits: Limits, wait: Wait) -> None:
        self._records = records
        self._limits = limits
        self._wait = wait
        self._notices = Notices()
        self.clients = Clients()
        self.renewals = Renewals[tuple[str, str]](limits.member_expiry_ms, self._expire)
        self._joining: Counter[str] = Counter()
        self._answers: dict[str, _Answer] = {}
        self._answers_bytes = 0
        self._answering = asyncio.Lock()

    @property
    def _state(self) -> GroupState:
        return self._records.state

    def watch(self) -> None:
        """Tell who waits when a group moves, whoever moves it."""
        self._state.on_move = self._moved

    def start(self) -> None:
        """Take up the members that the log has: all of them count as heard of now."""
        self.watch()
        self._state.on_member = self._member
        for group in self._state:
            for client_id in group.members:
                self.renewals.renew((group.name, client_id))
        self.renewals.start()

    async def close(self) -> None:
        """Let nobody expire any more."""
        self._notices.close()
        await self.renewals.close()

    def _member(self, group: str, client_id: str, there: bool) -> None:
        if there:
            self.renewals.renew((group, client_id))
        else:
            self.renewals.discard((group, client_id))
            self.clients.member_left(group, client_id)

    def _moved(self, group: Group) -> None:
        self._notices.moved(group.name)

    # Coming and going ------------------------------------------------------------------------

    async def heartbeat(self, name: str, client_id: str, member: Member) -> Group:
        """The client is a member; on return the log has it. Raises `GroupModelDiffers` when the others
        consume by another model, `FlowControl`, `StoreUnwritable`."""
        group, key = self._state.find(name), (name, client_id)
        known = None if group is None else group.members.get(client_id)
        # One that is leaving or has expired comes anew: the record of its going is on its way.
        if known is not None and self.renewals.goes_on(key):
            self.renewals.renew(key)
            if known == member:
                assert group is not None
                return group
        self._check_model(name, client_id, member)
        before = 0 if known is None else size_of(client_id, known)
        self._check_room(known is None, size_of(client_id, member) - before)
        self._joining[name] += 1
        try:
            await self._records.append([(name, "join", {"client_id": client_id, **member_fields(member)})])
        finally:
            self._joining[name] -= 1
            if not self._joining[name]:
                del self._joining[name]
        self._check_model(name, client_id, member)  # of two that come at once the first counts
        return self._find(name)

    def is_joined(self, name: str) -> bool:
        """Whether a record that says that the group has a member is on its way to the log."""
        return name in self._joining

    def _check_model(self, name: str, client_id: str, member: Member) -> None:
        group = self._state.find(name)
        if group is not None and not group.accepts(client_id, member):
            other = next(each for each in sorted(group.members) if each != client_id)
            raise GroupModelDiffers(
                f"group {name!r} is of model {group.model}, by its member {other!r}; a member of model {member.model}"
                " would get other messages than it expects"
            )

    def _check_room(self, new: bool, characters: int) -> None:
        state, limits = self._state, self._limits
        if new and state.member_count >= limits.members_max:
            raise FlowControl(f"there are {state.member_count} members already (groups.members_max)")
        if state.member_characters + characters > limits.member_characters_max:
            raise FlowControl("the members' subscriptions are too long together (groups.member_characters_max)")

    async def leave(self, name: str, client_id: str) -> Group:
        """The client is no member, whether it was one or not; its locks are free. Raises
        `GroupNotFound`, `StoreUnwritable`."""
        group, key = self._find(name), (name, client_id)
        if client_id in group.members:
            self.renewals.discard(key)
            try:
                await self._records.append([(name, "leave", {"client_id": client_id})])
            except Exception:
                self.renewals.renew(key)
                raise
        return group

    async def enable(self, name: str, client_id: str, consume_enabled: bool) -> Group:
        """Have one member consume, or nothing until it is told otherwise, or is a member no more: it keeps its queues.
        Raises `GroupNotFound`, `ClientNotFound`, `StoreUnwritable`."""
        member = self._member_of(name, client_id)
        # What another one has asked for meanwhile comes before this, which is the last word.
        if (client_id in self._find(name).paused) == consume_enabled or self._records.is_changing(name):
            said = {"client_id": client_id, **member_fields(member), "consume_enabled": consume_enabled}
            await self._records.append([(name, "join", said)])
            self._member_of(name, client_id)
        return self._find(name)

    def _member_of(self, name: str, client_id: str) -> Member:
        member = self._find(name).members.get(client_id)
        if member is None:
            raise ClientNotFound(f"group {name!r} has no member {client_id[:200]!r}")
        return member

    async def _expire(self, keys: list[tuple[str, str]]) -> None:
        await self._records.append([(name, "leave", {"client_id": client_id}) for name, client_id in keys])

    def _find(self, name: str) -> Group:
        group = self._state.find(name)
        if group is None:
            raise GroupNotFound(f"there is no group {name!r}")
        return group

    # Waiting ---------------------------------------------------------------------------------

    def _generation(self, name: str) -> int:
        group = self._state.find(name)
        return 0 if group is None else group.generation

    async def wait(self, name: str, generation: int, wait_ms: int, gone: asyncio.Future[Any], client: Client) -> None:
        """Return when the group isn't at that generation, after `wait_ms` at most, or when who waits
        is `gone`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while self._generation(name) == generation or self._notices.is_due(name):
            left = deadline - loop.time()
            if left <= 0 or gone.done():
                return
            waiter: asyncio.Future[None] = loop.create_future()
            self._notices.add(name, waiter)
            try:
                if not await self._wait(waiter, left, gone, client):
                    return
            finally:
                self._notices.discard(name, waiter)

    async def answer(self, group: Group, sees: Sees) -> bytes:
        """The group's members as JSON, as of the call or later: what a heartbeat, and who waits, is answered; of topics
        that it `sees`."""
        known = await self._answer(group)
        if not all(sees(each["topic"]) for each in known.found):
            return orjson.dumps({**known.fields, "differences": [each for each in known.found if sees(each["topic"])]})
        return known.content

    async def differences(self, group: Group) -> list[dict[str, Any]]:
        """`differences` of the group, as of the call or later."""
        return (await self._answer(group)).found if len(group.kinds) > 1 else []

    async def _answer(self, group: Group) -> _Answer:
        """Made once a generation: 1,000 members are told the same. One at a time: of generations that come meanwhile
        the last is made for all who wait."""
        asked = group.generation
        known = self._answers.get(group.name)
        if known is not None and known.generation == asked:
            return known
        if len(group.kinds) <= 1:  # nothing is awaited, nor does anybody wait
            return await self._make_answer(group)
        async with self._answering:
            known = self._answers.get(group.name)
            if known is not None and asked <= known.generation <= group.generation:
                return known
            return await self._make_answer(group)

    async def _make_answer(self, group: Group) -> _Answer:
        generation, fields = group.generation, self._describe(group)
        found = await differences(group)
        fields |= {"subscriptions_differ": bool(found), "differences": found}
        made = _Answer(generation, fields, orjson.dumps(fields), found)
        before = self._answers.get(group.name)
        if before is not None and before.generation > generation:
            return made  # of one that came after, made meanwhile
        self._answers_bytes += len(made.content) - (0 if before is None else len(before.content))
        if self._answers_bytes > ANSWERS_BYTES_MAX:
            self._answers.clear()
            self._answers_bytes = len(made.content)
        self._answers[group.name] = made
        return made

    def _describe(self, group: Group) -> dict[str, Any]:
        models = {member.model for member in group.members.values()}
        return {
            "group": group.name,
            "generation": group.generation,
            "members": sorted(group.members),
            "resets": group.resets,
            "consume_enabled": group.consume_enabled,
            "paused": sorted(group.paused),
            "expiry_ms": self._limits.member_expiry_ms,
            "models_differ": len(models) > 1,
        }
