"""How members' subscriptions differ: of many members that isn't found on the loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakemq.gateway.groups.differences import AT_ONCE, SHOWN_MAX, differences, subscriptions_of
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Member, Subscription

TOPICS = [f"topic{number:02}" for number in range(20)]
COUNT = AT_ONCE // len(TOPICS) + 1


class Counting(ThreadPoolExecutor):
    """Counts what it carries out."""

    submitted = 0

    def submit(self, *arguments: Any, **named: Any) -> Any:
        self.submitted += 1
        return super().submit(*arguments, **named)


def group_of(count: int) -> Group:
    """All subscribe to all topics, but the last, which lacks one."""
    group = Group("g", 1)
    for number in range(count):
        topics = TOPICS[1:] if number == count - 1 else TOPICS
        subscriptions = tuple(Subscription(topic, "tag", "*") for topic in topics)
        group.members[f"c{number:04}"] = Member("clustering", "last", None, subscriptions)
        group.kinds[subscriptions] += 1
    return group


@pytest.mark.parametrize("count", [COUNT, 3])
def test_the_subscriptions_of_many_members_are_not_compared_on_the_loop(count: int) -> None:
    """A heartbeat with other subscriptions than the one before held everybody up: 0.2 s of 5,000 members."""
    threads = Counting()

    async def ask() -> list[dict[str, Any]]:
        asyncio.get_running_loop().set_default_executor(threads)
        return await differences(group_of(count))

    (found,) = asyncio.run(ask())
    assert found["topic"] == TOPICS[0]
    assert found["without"] == [f"c{count - 1:04}"]
    (kind,) = found["subscriptions"]
    assert kind["client_ids"] == [f"c{number:04}" for number in range(min(count - 1, SHOWN_MAX))]
    assert threads.submitted == (0 if count == 3 else 1)


def test_differences_are_as_they_were_when_they_were_asked_for() -> None:
    group = group_of(COUNT)

    async def ask() -> list[dict[str, Any]]:
        asked = asyncio.ensure_future(differences(group))
        await asyncio.sleep(0)
        group.members.clear()
        return await asked

    assert len(asyncio.run(ask())) == 1


def test_what_members_subscribe_to_is_said_once_and_sorted() -> None:
    assert [each.topic for each in asyncio.run(subscriptions_of(group_of(3)))] == TOPICS
