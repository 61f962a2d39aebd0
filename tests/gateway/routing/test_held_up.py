"""What takes long, or can't be done now, holds up nothing else: messages that only an unreadable lake has, and the many
that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroaring import BitMap64

from lakemq.gateway.effects.executor import AT_ONCE_MAX
from lakemq.model.message import Draft
from lakemq.model.names import SCHEDULE_TOPIC
from lakemq.storage.lake.history import History
from lakemq.storage.state.topics import Topic
from tests.gateway.routing.harness import TOPIC, RoutingHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    harness = RoutingHarness(tmp_path / "data", retention_ms=0, segment_bytes=2**20, compression="none")
    harness.open(10_000)
    yield harness
    harness.stop()


def break_the_lake(harness: RoutingHarness, folder: Path) -> None:
    """It is there, and nothing of it can be read."""
    for table in ("messages", "consume_queue", "message_index"):
        (folder / table / "_delta_log").mkdir(parents=True)
        (folder / table / "_delta_log/00000000000000000000.json").write_text("broken")
    harness.broker.cold.history = History(folder, harness.broker.ids, 2**20, is_verified=False)


def test_what_only_an_unreadable_lake_has_holds_up_nothing_that_the_log_has(
    harness: RoutingHarness, tmp_path: Path
) -> None:
    old = harness.produce(Draft(b"old"))
    for _ in range(2):
        harness.produce(Draft(bytes(2**20)))
    hot = harness.produce(Draft(b"hot"))
    assert {old, hot} <= {each.origin for each in harness.run(harness.receiving("g", 10, 60_000, 16, False))}
    log = harness.broker.log
    log.retention.certain_position = hot  # so the lake is said to have what leaves the log, as on a full disk
    while log.min_position <= old:
        log.retention.drop(log.state)
    break_the_lake(harness, tmp_path / "lake")
    harness.pass_time(60_000)
    again = harness.run(harness.receiving("g", 10, 60_000, 16, False))
    assert {(each.origin, each.reconsume_times) for each in again if each.origin in (old, hot)} == {(hot, 1)}


class Watched(BitMap64):
    """Counts how often it is asked."""

    asked = 0

    def __contains__(self, value: int) -> bool:
        Watched.asked += 1
        return super().__contains__(value)


def test_what_moves_on_is_looked_at_a_thousand_at_a_time_however_many_wait(harness: RoutingHarness) -> None:
    count = 4 * AT_ONCE_MAX
    first, *_ = [harness.produce(Draft(b"x", delay_ms=3_600_000)) for _ in range(count)]
    state, end = harness.broker.router.state, harness.broker.log.next_position
    assert (len(state.delays), state.delays.min()) == (count, first)
    state.decided, Watched.asked = Watched(state.decided), 0
    assert harness.run(harness.broker.router.deliveries.clear_below(end))
    assert (len(state.delays), state.delays.min()) == (count, end)
    assert Watched.asked < 3 * count


def test_what_was_moved_on_is_recalled_while_the_lake_cannot_be_read(harness: RoutingHarness, tmp_path: Path) -> None:
    scheduled = harness.produce(Draft(b"old", delay_ms=3_600_000))
    for _ in range(2):
        harness.produce(Draft(bytes(2**20)))
    log, router = harness.broker.log, harness.broker.router
    assert harness.run(router.deliveries.clear_below(scheduled + 1))
    log.retention.certain_position = log.next_position
    while log.min_position <= scheduled:
        log.retention.drop(log.state)
    break_the_lake(harness, tmp_path / "lake")
    asked: list[str] = []
    harness.run(router.recalls.recall(harness.id_of(scheduled), lambda topic, _: asked.append(topic)))
    assert set(asked) == {"orders"}
    assert not router.state.delays


@pytest.mark.parametrize("is_made", [True, False])
def test_what_moves_on_as_its_topic_is_made_again_moves_to_no_later_one(harness: RoutingHarness, is_made: bool) -> None:
    """Whether that is made by then, or just being written."""
    harness.run(harness.broker.topics.put(TOPIC, 1, "rw"))
    harness.produce(Draft(b"old", delay_ms=3_600_000))
    broker, executor = harness.broker, harness.broker.router.executor
    ensure = executor.ensure_topic

    async def as_it_is_made(name: str) -> Topic:
        topic = await ensure(name)
        if name == SCHEDULE_TOPIC:
            await broker.topics.delete(TOPIC)
            making = asyncio.ensure_future(broker.topics.put(TOPIC, 1, "rw"))
            await (making if is_made else asyncio.sleep(0))
        return topic

    executor.ensure_topic = as_it_is_made
    assert harness.run(broker.router.deliveries.clear_below(broker.log.next_position))
    assert broker.log.topics.find(TOPIC) is not None
    assert not broker.router.state.delays
