"""Users stay, whatever is lost of the log or leaves it."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.access.users import Users
from lakemq.model.access import Policy, parse_policy
from lakemq.storage.state.access_state import AccessState, Account
from tests.storage.ledger import Broken
from tests.storage.power_cuts import Machine

ALLOW = parse_policy({"resource": "Topic:t", "actions": ["Pub"]})
HASH = "0" * 64
CALLS = 70
"""Mutating calls of a machine that ends well are more."""
STEP = 7


class AccessMachine(Machine):
    """A machine whose administrator makes users, and remembers what is confirmed."""

    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, seed)
        self.told: dict[str, Account] = {}
        """As it was confirmed last."""
        self.tried: list[dict[str, Account]] = []
        """What was asked for since, one after the other: any of it may be so."""
        self.changes = 0

    def check(self) -> None:
        """Hold the users against what was told."""
        super().check()
        found = dict(self.broker.users.state.users)
        if found not in [self.told, *self.tried]:
            raise Broken(f"there are the users {found}, and there were {self.told}, then {self.tried}")
        self.told, self.tried = found, []

    async def change(self) -> None:
        """One change, and its confirmation, as a request waits for it."""
        if await self.attempt(self._change(NotingUsers(self))):
            self.told, self.tried = dict(self.broker.users.state.users), []
            self.changes += 1

    async def _change(self, users: Users) -> bool:
        name, chance = self.chance.choice("ab"), self.chance
        way = chance.randrange(5) if name in users.state.users else 0
        policies: list[Policy] = [ALLOW] * chance.randrange(3)
        doing: Awaitable[Any] = (
            users.put(name, {"status": chance.choice(["enabled", "disabled"])})
            if way == 0
            else users.put_policies(name, policies)
            if way in (1, 2)
            else users.add_token(name, f"{name}{chance.randrange(3)}", HASH, None)
            if way == 3
            else users.delete(name)
        )
        await doing
        await self.broker.log.until_confirmed()
        return True

    async def live_on(self) -> None:
        """Some changes, while the log goes on, and its beginning leaves."""
        for _ in range(4):
            await self.change()
            await self.produce(1)
            await self.change()
            await self.roll()
        await self.retain()
        await self.change()


class NotingUsers(Users):
    """Has the machine note what a change comes to, before it is made."""

    def __init__(self, machine: AccessMachine) -> None:
        broker = machine.broker
        super().__init__(broker.log, broker.topics.system, broker.settings.auth, broker.clock)
        self._machine = machine

    async def _append(self, *records: tuple[str, dict[str, Any]]) -> None:
        expected = AccessState()
        expected.restore(json.loads(json.dumps(self.state.dump())))
        for kind, content in records:
            expected._apply(kind, json.loads(json.dumps(content)))  # pyright: ignore[reportPrivateUsage]
        self._machine.tried.append(dict(expected.users))
        await super()._append(*records)


async def nothing() -> None:
    """A life without clients."""


@pytest.mark.parametrize("begin", range(1, 1 + STEP))
def test_what_was_confirmed_of_users_is_there_after_a_power_cut_or_a_kill(begin: int, tmp_path: Path) -> None:
    for die_at in range(begin, CALLS, STEP):
        root = tmp_path / str(die_at)
        root.mkdir()
        machine = AccessMachine(root, die_at)
        machine.files.die_at = die_at
        machine.live(machine.live_on)
        machine.end(power=bool(die_at % 3))
        machine.live(machine.live_on)
        machine.end(power=True)
        assert machine.changes > 4
        machine.live(nothing)
        machine.end(power=True)


def test_users_outlive_the_segments_with_their_records(tmp_path: Path) -> None:
    machine = AccessMachine(tmp_path, 1)

    async def scene() -> None:
        users = machine.broker.users
        await users.put("ann", {"type": "super"})
        await users.put_policies("ann", [ALLOW])
        await users.add_token("ann", "1", HASH, 5)
        for _ in range(5):
            await machine.produce(1)
            await machine.roll()
        await machine.retain()
        topic = machine.broker.log.topics.get("RMQ_SYS_ACCESS_TOPIC")
        assert topic.queues[0].begin_offset == topic.queues[0].next_offset, "none of their records is there"
        machine.told = dict(users.state.users)

    machine.live(scene)
    machine.end(power=False)
    machine.live(nothing)
    (account,) = machine.told.values()
    assert (account.user.policies, [each.id for each in account.tokens]) == ((ALLOW,), ["1"])
