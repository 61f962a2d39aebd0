"""Requests that name thousands of queues, receipts or messages: while they are looked at, others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.groups.queues import queues_of
from lakemq.gateway.http import in_slices
from lakemq.gateway.routing.nacks import Nack
from lakemq.model.errors import TopicNotFound
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.segment.rows import make_row
from tests.gateway.routing.harness import RoutingHarness, anybody
from tests.gateway.turns import turns_of

T = TypeVar("T")
MANY = 500
NONE = [f"none.{number}" for number in range(MANY)]
ROUNDS_MIN = 100
"""As many as there are items, less some: without slices there are none but those of writing a frame."""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RoutingHarness]:
    """Every item takes a whole slice's time."""
    monkeypatch.setattr(in_slices, "SLICE_S", 0.0)
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms=1_000)
    harness.run(harness.broker.topics.put("many", MANY, "rw"))
    yield harness
    harness.close()


def counted(harness: RoutingHarness, work: Awaitable[T]) -> tuple[T, int]:
    """What the work returns, and how often others had their turn before."""
    return harness.run(turns_of(work))


def test_others_go_on_while_many_queues_are_locked(harness: RoutingHarness) -> None:
    locks, topics = harness.broker.groups.locks, harness.broker.log.topics
    queues = [("many", number) for number in range(MANY)]
    for _ in range(2):  # they are new, and then renewed
        found, rounds = counted(harness, locks.acquire("g", "c", queues, topics))
        assert found == queues
        assert rounds > 2 * ROUNDS_MIN
    assert harness.run(locks.release("g", "c", queues)) == queues


def test_others_go_on_while_many_offsets_are_committed(harness: RoutingHarness) -> None:
    offsets = [QueueOffset("many", number, 0) for number in range(MANY)]
    found, rounds = counted(harness, harness.broker.groups.offsets.commit("g", offsets))
    assert found == offsets
    assert rounds > ROUNDS_MIN


def test_others_go_on_while_many_receipts_are_looked_at(harness: RoutingHarness) -> None:
    acknowledger = harness.broker.router.acknowledger
    statuses, rounds = counted(harness, acknowledger.acknowledge("g", NONE))
    assert set(statuses) == {"invalid_receipt"}
    assert rounds > ROUNDS_MIN
    nacks = [Nack(None, receipt=receipt) for receipt in NONE]
    statuses, rounds = counted(harness, harness.broker.router.nacks.nack("g", nacks, anybody))
    assert set(statuses) == {"invalid_receipt"}
    assert rounds > 2 * ROUNDS_MIN


def test_others_go_on_while_groups_are_looked_for_among_all_topics(harness: RoutingHarness) -> None:
    for number in range(20):
        harness.run(harness.broker.topics.put(f"t{number}", 1, "rw"))
    numbers, rounds = counted(harness, harness.broker.groups.numbers())
    assert numbers == {}
    assert rounds >= 20


def test_messages_far_apart_are_nacked_as_neighbours_are(harness: RoutingHarness) -> None:
    """What is known of them is read one by one, or a stretch at once."""
    ids = [harness.broker.store.ids.of(position) for position in put(harness, 40)]
    for some in (ids[:1] + ids[-1:], ids[10:20]):
        nacks = [Nack(message_id) for message_id in some]
        assert set(harness.run(harness.broker.router.nacks.nack("g", nacks, anybody))) == {"ok"}


def put(harness: RoutingHarness, count: int) -> list[int]:
    """The positions of so many messages of one frame."""
    queue = harness.broker.log.topics.queue("many", 0)
    rows = [make_row(body=b"x") for _ in range(count)]

    async def append() -> list[int]:
        stored = await harness.broker.log.append(RowsAppend(rows, [queue] * count))
        return [where.position for where in stored.placed]

    return harness.run(append())


def test_who_locks_in_the_middle_of_another_s_request_keeps_the_lock(harness: RoutingHarness) -> None:
    locks, topics = harness.broker.groups.locks, harness.broker.log.topics
    queues = [("many", number) for number in range(MANY)]

    async def both() -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        slow = asyncio.create_task(locks.acquire("g", "slow", queues, topics))
        for _ in range(MANY + MANY // 2):  # it has looked at half of them
            await asyncio.sleep(0)
        assert not slow.done()
        quick = await locks.acquire("g", "quick", queues[:3], topics)
        return quick, await slow

    quick, slow = harness.run(both())
    assert quick == queues[:3]
    assert slow == queues[3:]
    assert harness.run(locks.acquire("g", "quick", queues[:3], topics)) == queues[:3]


def test_a_topic_that_is_deleted_while_its_queues_are_looked_at_is_not_there(harness: RoutingHarness) -> None:
    topics = harness.broker.log.topics
    harness.run(harness.broker.topics.put("gone", 1, "rw"))
    queues = [("gone", 0), *(("many", number) for number in range(MANY))]

    async def both() -> None:
        looking = asyncio.create_task(queues_of(topics, queues))
        await asyncio.sleep(0)
        await harness.broker.topics.delete("gone")
        assert not looking.done()
        await looking

    with pytest.raises(TopicNotFound):
        harness.run(both())
