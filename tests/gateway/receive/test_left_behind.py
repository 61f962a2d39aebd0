"""Retries that a filter doesn't want stay behind, and what comes long after them is found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.receipts.receive_request import ReceiveRequest, filter_key
from lakemq.gateway.receive import budget, selection
from lakemq.model.message import Draft
from lakemq.model.names import retry_topic
from tests.gateway.routing.harness import TOPIC, RoutingHarness

STEP, AT_ONCE = 4, 8
"""What a receive looks at in one step, and in all."""
SOON_MS, LATE_MS = 1_000, 3_600_000
MANY = 3 * AT_ONCE


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RoutingHarness]:
    monkeypatch.setattr(selection, "SCAN_STEP", STEP)
    monkeypatch.setattr(budget, "SCANNED_MAX", AT_ONCE)
    made = RoutingHarness(tmp_path / "data")
    made.open(0, 0)
    try:
        yield made
    finally:
        made.stop()


def receive(
    harness: RoutingHarness, tag: str, invisible_ms: int = LATE_MS, most: int = 100, *, ordered: bool = False
) -> list[int]:
    """Receive what has the tag; returns the offsets in the queues that it came from."""

    async def receiving() -> list[int]:
        wanted = ReceiveRequest("g", TOPIC, most, invisible_ms, 16, ordered, Selector.of(tag), filter_key(tag, None))
        given = await harness.receiver.receive(wanted, 0, asyncio.get_running_loop().create_future())
        parts = [] if given is None else [part for some in given.chosen for part in some.parts]
        return [part.first_queue_offset + number for part in parts for number in range(part.count)]

    return harness.run(receiving())


def run_out(harness: RoutingHarness, tag: str, count: int) -> None:
    """Let messages of the tag come to the retry topic."""
    for _ in range(count):
        harness.produce(Draft(b"x", tag))
    assert sum([len(receive(harness, tag, SOON_MS)) for _ in range(count)]) == count
    harness.pass_time(SOON_MS + 1)


def looked_for(harness: RoutingHarness, tag: str) -> list[int]:
    """The first retry of the tag that some receives find."""
    for _ in range(2 * MANY // AT_ONCE):
        if found := receive(harness, tag):
            return found
    return []


def low(harness: RoutingHarness) -> int:
    """Where the group is in its retry topic."""
    subscription = harness.broker.log.routing.receipts.find("g", TOPIC)
    assert subscription is not None
    return subscription.cursor(retry_topic("g"), 0).low


def test_what_comes_long_after_a_retry_that_nobody_wants_is_found(harness: RoutingHarness) -> None:
    """Each receive began at that one anew, and came no further than the last."""
    run_out(harness, "a", 1)
    run_out(harness, "b", MANY)
    taken = [offset for _ in range(MANY) for offset in receive(harness, "b")]
    assert sorted(taken) == list(range(1, 1 + MANY))
    run_out(harness, "b", 1)
    assert looked_for(harness, "b") == [1 + MANY]
    assert receive(harness, "b") == []
    assert looked_for(harness, "a") == [0]


def test_a_receive_looks_again_at_what_stayed_behind(harness: RoutingHarness) -> None:
    """Else the group's place would stay where that was."""
    run_out(harness, "a", 2)
    run_out(harness, "b", MANY)
    taken = [offset for _ in range(MANY) for offset in receive(harness, "b")]
    assert len(taken) == MANY
    assert receive(harness, "a", most=1) == [0]
    run_out(harness, "b", 1)
    assert looked_for(harness, "b") == [2 + MANY]
    assert low(harness) == 1, "the second one still waits"
    assert receive(harness, "a") == [1]
    run_out(harness, "b", 1)
    assert looked_for(harness, "b") == [3 + MANY]
    assert low(harness) == 4 + MANY


@pytest.mark.parametrize("how", ["reset", "delete"])
def test_what_a_filter_passed_over_in_order_is_there_for_a_group_that_goes_back(
    harness: RoutingHarness, how: str
) -> None:
    """Nothing had been handed out yet, so no place of the group said that it was another's by then."""
    for tag in "aab":
        harness.produce(Draft(b"x", tag, ordering_key="k"))
    broker, queue = harness.broker, harness.broker.log.topics.find(TOPIC)
    assert queue is not None
    (used,) = [each for each in queue.queues if each.end_offset]
    harness.run(broker.groups.offsets.commit("g", [QueueOffset(TOPIC, used.queue_id, 2)]))
    assert receive(harness, "a", ordered=True) == []
    if how == "reset":
        harness.run(broker.groups.offsets.reset("g", TOPIC, "earliest", 0))
    else:
        harness.run(broker.groups.delete("g"))
    harness.produce(Draft(b"x", "a", ordering_key="k"))
    assert receive(harness, "a", ordered=True) == [0]
