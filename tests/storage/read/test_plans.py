"""Plans of any size: on the loop no index is read, and little is looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakemq.storage.read import plans as plans_module
from lakemq.storage.read.frame_counts import frames_of
from lakemq.storage.read.plans import READ_MAX, Plans
from lakemq.storage.read.sealed_indexes import INDEXES_MAX
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.testing import FaultyFiles
from tests.storage.harness import LogHarness

SEGMENTS = 12


class _Watched(FaultyFiles):
    """In which threads indexes are read."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def open_read(self, path: Path) -> int:
        if path.suffix == ".idx":
            self.threads.append(threading.get_ident())
        return super().open_read(path)


class Rare(LogHarness):
    """Only the first of many sealed segments has a message of topic `a`."""

    files: _Watched

    def fill(self) -> None:
        self.put_topic("a")
        self.put_topic("b")
        self.append("a", 0, b"first")
        for count in range(2, SEGMENTS + 2):
            self.append("b", 0, b"%d" % count)
            self.log.begin_segment()
            while len(self.log.segments) < count:
                self.run(asyncio.sleep(0.001))
            self.wait_until_sealed()
        self.append("b", 0, b"last")
        self.reopen()
        self.files.threads.clear()

    def read_aside(self) -> int:
        """How many indexes were read, none of them by who asked."""
        assert threading.get_ident() not in self.files.threads
        count = len(self.files.threads)
        self.files.threads.clear()
        return count


@pytest.fixture
def rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rare]:
    monkeypatch.setattr(plans_module, "QUEUES_AT_ONCE", 1)
    harness = Rare(tmp_path)
    harness.files = _Watched()
    harness.open()
    harness.fill()
    yield harness
    harness.crash()


def test_a_rare_topic_is_looked_for_aside_a_few_segments_at_a_time(rare: Rare) -> None:
    plans, end = Plans(rare.reader), rare.log.next_position
    at, steps = 0, 0
    while at < end:
        plan = rare.run(plans.positions(at, end, {"a"}, 1_000, asyncio.to_thread))
        assert at < plan.end <= end
        assert bool(plan.extents) == (at == 0)
        assert rare.read_aside() <= READ_MAX
        at, steps = plan.end, steps + 1
    assert steps > SEGMENTS // (READ_MAX + 1)


def test_where_a_rare_topic_ends_is_looked_for_aside_and_remembered(rare: Rare) -> None:
    plans, end = Plans(rare.reader), rare.reader.end_of({"a"}, 0)
    rare.files.threads.clear()
    first = rare.run(plans.end_of({"a"}, 0, asyncio.to_thread))
    assert rare.read_aside() >= SEGMENTS - INDEXES_MAX
    assert first() == end < 5
    again = rare.run(plans.end_of({"a"}, 0, asyncio.to_thread))
    assert rare.read_aside() == 0
    assert again() == end
    rare.append("a", 0, b"new")
    assert again() == rare.log.next_position
    assert rare.run(plans.end_of({"a"}, 0, asyncio.to_thread))() == rare.log.next_position


def test_that_a_topic_has_nothing_from_there_on_says_nothing_of_what_is_before(rare: Rare) -> None:
    plans, end = Plans(rare.reader), rare.reader.end_of({"a"}, 0)
    assert rare.run(plans.end_of({"a"}, 5, asyncio.to_thread))() == 5
    assert rare.run(plans.end_of({"a"}, 7, asyncio.to_thread))() == 7
    assert rare.run(plans.end_of({"a"}, 0, asyncio.to_thread))() == end < 5
    assert rare.run(plans.end_of({"a"}, 5, asyncio.to_thread))() == 5


def test_so_many_messages_of_a_rare_topic_are_looked_for_aside(rare: Rare) -> None:
    end = rare.log.next_position
    assert rare.run(Plans(rare.reader).limit({"a"}, 0, end, 1, asyncio.to_thread)) == end
    assert rare.read_aside() == SEGMENTS


def remove_oldest(rare: Rare) -> None:
    rare.log._store.remove_oldest(rare.log.topics)  # pyright: ignore[reportPrivateUsage]


def test_segments_that_leave_the_log_meanwhile_end_the_search(rare: Rare) -> None:
    """Nobody had named a position in them."""
    kept = rare.log.segments[SEGMENTS // 2].base_position

    async def late(read: Callable[..., Any], *arguments: Any) -> Any:
        while rare.log.segments[0].base_position < kept:
            remove_oldest(rare)
        return await asyncio.to_thread(read, *arguments)

    plans, end = Plans(rare.reader), rare.log.next_position
    assert rare.run(plans.end_of({"a"}, 0, late))() == 0
    assert rare.log.min_position == kept
    assert rare.run(Plans(rare.reader).limit({"a"}, 0, end, 1, asyncio.to_thread)) == end


def test_of_a_segment_that_leaves_the_log_as_it_is_looked_at_nothing_counts(rare: Rare) -> None:
    async def late(read: Callable[..., Any], *arguments: Any) -> Any:
        if rare.log.min_position == 0:
            remove_oldest(rare)
        return await asyncio.to_thread(read, *arguments)

    end = rare.log.next_position
    assert rare.run(Plans(rare.reader).limit({"a"}, 0, end, 1, late)) == end


def test_of_many_queues_no_more_runs_are_taken_than_one_plan_may_have() -> None:
    """A request for one frame took those of the whole segment: a second and more, for all."""
    index = SegmentIndex(0)
    for number in range(1_000):
        index.positions.append(number)
        index.offsets.append(number * 10)
        index.times.append(number)
        index.add_run(("a", number % 64), number // 64, 1, number * 10)
    index.end_position, index.covered_bytes = 1_000, 10_000
    at, found = 0, list[int]()
    while at < 1_000:
        numbers, reached = frames_of(index, {"a"}, at, 1_000, 10)
        assert 1 <= len(numbers) <= 10
        found += numbers
        at = reached
    assert found == list(range(1_000))
