"""How far a group is behind that begins at an old time, as of when that was looked up: what comes meanwhile counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lakemq.gateway.groups import lag
from lakemq.gateway.groups.lag import QueueLag
from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.pull.standing import Standings
from lakemq.model.errors import GroupNotFound
from lakemq.model.message import Draft
from lakemq.storage.read.sealed_indexes import UNUSED_MAX
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.member import Member, Subscription
from tests.gateway.routing.harness import TOPIC, RoutingHarness
from tests.storage.harness import begin_segment


class _Group:
    """Group `g`, which begins at the time of the second of four messages of one queue: all in segments that are written
    no more, and whose indexes are not in memory."""

    def __init__(self, harness: RoutingHarness, patch: pytest.MonkeyPatch) -> None:
        self.harness = harness
        self.patch = patch
        self.broker = broker = harness.broker
        harness.run(broker.topics.put(TOPIC, 1, "rw"))
        begin_ms = harness.clock.now_ms() + 1_000
        for _ in range(4):
            harness.produce(Draft(body=b"x"))
            harness.clock.time_ms += 1_000
        member = Member("clustering", "timestamp", begin_ms, (Subscription(TOPIC, "tag", "*"),))
        harness.run(broker.groups.members.heartbeat("g", "c", member))
        harness.run(begin_segment(broker.log))
        for _ in range(UNUSED_MAX + 1):
            broker.reader.forget_unused()

    def lags_while(self, do: Callable[[Broker], Awaitable[Any]]) -> list[QueueLag]:
        """Its lags, looked up while that is done."""
        done: list[None] = []

        async def late(look: Callable[..., Any], *arguments: Any) -> Any:
            await do(self.broker)
            done.append(None)
            return await asyncio.to_thread(look, *arguments)

        self.patch.setattr(lag, "to_thread", late)
        found = self.harness.run(self.broker.groups.describe("g", lambda _: True))
        assert done == [None]
        return [QueueLag(**each) for each in found["lag"] if each["topic"] == TOPIC]


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Group]:
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms=0)
    yield _Group(harness, monkeypatch)
    harness.stop()


async def _nothing(_: Broker) -> None:
    await asyncio.sleep(0)


def test_a_group_is_behind_from_its_time_on(group: _Group) -> None:
    assert group.lags_while(_nothing) == [QueueLag(TOPIC, 0, None, 0, 4, 3)]


def test_an_offset_that_is_committed_meanwhile_counts(group: _Group) -> None:
    async def commit(broker: Broker) -> None:
        await broker.groups.offsets.commit("g", [QueueOffset(TOPIC, 0, 3)])

    assert group.lags_while(commit) == [QueueLag(TOPIC, 0, 3, 0, 4, 1)]


def test_what_is_stored_meanwhile_counts(group: _Group) -> None:
    async def produce(_: Broker) -> None:
        await group.harness.storing(Draft(body=b"y"), None)

    assert group.lags_while(produce) == [QueueLag(TOPIC, 0, None, 0, 5, 4)]


def test_a_queue_that_is_made_meanwhile_is_read_from_its_beginning(group: _Group) -> None:
    async def enlarge(broker: Broker) -> None:
        await broker.topics.put(TOPIC, 2, "rw")

    assert group.lags_while(enlarge) == [QueueLag(TOPIC, 0, None, 0, 4, 3), QueueLag(TOPIC, 1, None, 0, 0, 0)]


def test_a_topic_that_is_deleted_meanwhile_has_none(group: _Group) -> None:
    async def delete(broker: Broker) -> None:
        await broker.topics.delete(TOPIC)

    assert group.lags_while(delete) == []


def test_a_topic_that_is_made_again_meanwhile_has_nothing_yet(group: _Group) -> None:
    async def make_again(broker: Broker) -> None:
        await broker.topics.delete(TOPIC)
        await broker.topics.put(TOPIC, 1, "rw")

    (found,) = group.lags_while(make_again)
    assert (found.offset, found.lag) == (None, 0)


def test_a_group_that_is_deleted_meanwhile_is_not_found(group: _Group) -> None:
    broker = group.broker

    async def late(look: Callable[..., Any], *arguments: Any) -> Any:
        await broker.groups.members.leave("g", "c")
        await broker.groups.delete("g")
        return await asyncio.to_thread(look, *arguments)

    group.patch.setattr(lag, "to_thread", late)
    standing = Standings(broker.log, broker.groups, group.harness.clock)
    with pytest.raises(GroupNotFound):
        group.harness.run(standing.of("g", {"topic": TOPIC, "queue_id": 0}, cast("Slice", None)))
