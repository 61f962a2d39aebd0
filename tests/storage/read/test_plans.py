"""Plans of any size: on the loop no index is read, and little is looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakemq.model.errors import MessageNotFound, PositionGone
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.read import look_up
from lakemq.storage.read import plans as plans_module
from lakemq.storage.read.frame_counts import frames_of
from lakemq.storage.read.plans import READ_MAX, Plans
from lakemq.storage.read.reader import Reader
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.read.sealed_indexes import INDEXES_MAX
from lakemq.storage.read.spans import Span
from lakemq.storage.segment.rows import make_row
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.testing import FaultyFiles
from tests.storage.harness import LogHarness, begin_segment, plan_rows_now

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
    first_ms: int
    step_ms = 0

    def fill(self) -> None:
        self.put_topic("a")
        self.put_topic("b")
        self.first_ms = self.append("a", 0, b"first").store_time_ms
        for count in range(2, SEGMENTS + 2):
            self.clock.time_ms += self.step_ms
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
    yield from _filled(Rare(tmp_path))


def _filled(harness: Rare) -> Iterator[Rare]:
    harness.files = _Watched()
    harness.open()
    harness.fill()
    yield harness
    harness.crash()


@pytest.fixture
def spread(tmp_path: Path) -> Iterator[Rare]:
    """A second for each segment."""
    harness = Rare(tmp_path)
    harness.step_ms = 1_000
    yield from _filled(harness)


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


def test_since_when_queues_have_messages_is_looked_up_aside(spread: Rare) -> None:
    plans, begun_ms = Plans(spread.reader), spread.clock.time_ms
    queues = [spread.log.topics.queue(name, 0) for name in "aab"]
    found = spread.run(plans.spans(queues, asyncio.to_thread))
    assert 0 < spread.read_aside() <= SEGMENTS // 2  # as of any search in halves
    first_ms = spread.first_ms
    assert found == [Span(first_ms, first_ms), Span(first_ms, first_ms), Span(first_ms + 1_000, begun_ms)]
    spread.clock.time_ms += 5_000
    assert spread.append("a", 0, b"new").store_time_ms == begun_ms + 5_000
    assert spread.run(plans.spans(queues, asyncio.to_thread))[1] == Span(first_ms, begun_ms + 5_000)
    remove_oldest(spread)
    after = spread.run(plans.spans(queues, asyncio.to_thread))
    assert after[1:] == [Span(begun_ms + 5_000, begun_ms + 5_000), Span(first_ms + 2_000, begun_ms)]
    spread.put_topic("none")
    assert spread.run(plans.spans([spread.log.topics.queue("none", 0)], asyncio.to_thread)) == [Span()]


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


def test_a_queue_s_plan_reads_its_indexes_aside(rare: Rare) -> None:
    for topic in ("a", "b"):
        queue = rare.log.topics.queue(topic, 0)
        aside = rare.run(Plans(rare.reader).queue(queue, 0, 100, 100_000, asyncio.to_thread))
        assert rare.read_aside()
        assert aside == rare.reader.plan(queue, 0, 100, 100_000)
        assert len(aside.extents) == (1 if topic == "a" else SEGMENTS + 1)
        rare.reopen()
        rare.files.threads.clear()


def test_times_and_positions_are_looked_up_aside(rare: Rare) -> None:
    plans, queue = Plans(rare.reader), rare.log.topics.queue("b", 0)
    found = [rare.run(plans.position_at_time(0, asyncio.to_thread)), rare.read_aside()]
    assert found == [rare.reader.position_at_time(0), 1]
    for position in (0, 5, rare.log.next_position - 1, rare.log.next_position):
        aside = rare.run(plans.offset_at_position(queue, position, asyncio.to_thread))
        rare.read_aside()
        assert aside == rare.reader.offset_at_position(queue, position)
        rare.files.threads.clear()


def test_where_queues_stood_at_a_time_one_index_says(rare: Rare) -> None:
    """Also of a queue that had nothing from there on, and of one that was not there yet."""
    rare.put_topic("late", 1)
    for topic in ("a", "late", "b"):
        rare.clock.time_ms += 1_000
        rare.append(topic, 0, b"new")
    queues = [rare.log.topics.queue(topic, 0) for topic in ("a", "b", "late")]
    times = {time_ms for segment in rare.log.segments for time_ms in rare.reader.index(segment).times}
    for time_ms in sorted({*times, 0, 2**62} | {time_ms + 1 for time_ms in times}):
        rare.reader = Reader(rare.log)
        rare.files.threads.clear()
        found = rare.run(Plans(rare.reader).offsets_at_time(queues, time_ms, asyncio.to_thread))
        assert rare.read_aside() <= 1
        position = rare.reader.position_at_time(time_ms)
        assert found == [rare.reader.offset_at_position(queue, position) for queue in queues]


def test_what_is_in_memory_is_looked_up_at_once(rare: Rare) -> None:
    async def never(*_: object) -> None:
        raise AssertionError

    plans, queue = Plans(rare.reader), rare.log.topics.queue("b", 0)
    end = queue.next_offset
    assert rare.run(plans.queue(queue, end - 1, 1, 1, asyncio.to_thread)).end == end
    rare.read_aside()
    assert rare.run(plans.queue(queue, end - 1, 1, 1, never)).end == end
    assert rare.run(plans.position_at_time(2**62, never)) == rare.log.next_position
    assert rare.run(plans.offsets_at_time([queue], 2**62, never)) == [end]


def test_what_the_log_has_is_planned_though_older_segments_leave_it_meanwhile(rare: Rare) -> None:
    """The look goes by the indexes of those too: an offset that is there is never said to be gone."""

    async def late(look: Callable[..., Any], *arguments: Any) -> Any:
        while len(rare.log.segments) > 2:
            remove_oldest(rare)
        return await asyncio.to_thread(look, *arguments)

    queue = rare.log.topics.queue("b", 0)
    last = queue.next_offset - 1
    plan = rare.run(Plans(rare.reader).queue(queue, last, 1, 1, late))
    assert (plan.begin, plan.end, len(plan.extents)) == (last, last + 1, 1)
    assert queue.min_offset > 1


def test_what_comes_while_an_offset_is_looked_for_aside_is_not_passed_over(rare: Rare) -> None:
    """It may be in segments that were not there as the look began."""
    queue = rare.log.topics.queue("a", 0)

    async def late(look: Callable[..., Any], *arguments: Any) -> Any:
        await begin_segment(rare.log)
        await rare.log.append(RowsAppend([make_row(body=b"next")], [queue], None))
        return await asyncio.to_thread(look, *arguments)

    assert rare.run(Plans(rare.reader).offset_at_position(queue, 5, late)) == 1


def stored_ms_now(reader: RowReader, position: int) -> int:
    return look_up.stored_ms(reader.segments(), reader.index, position)


def every_second(rare: Rare) -> list[int]:
    return list(range(0, rare.log.next_position, 2))


def test_rows_are_planned_aside_and_from_memory_at_once(rare: Rare) -> None:
    async def never(*_: object) -> None:
        raise AssertionError

    reader = RowReader(rare.log)
    plans, wanted = Plans(reader), every_second(rare)
    found = rare.run(plans.rows(wanted, asyncio.to_thread))
    assert rare.read_aside()
    assert found == plan_rows_now(reader, wanted)
    assert sorted(position for plan in found for position in plan.positions) == wanted
    assert len({plan.segment for plan in found}) > INDEXES_MAX
    assert rare.run(plans.rows(wanted[-3:], never)) == plan_rows_now(reader, wanted[-3:])
    assert rare.run(plans.rows([], never)) == []


def test_one_message_and_its_time_are_looked_up_aside(rare: Rare) -> None:
    reader = RowReader(rare.log)
    for position in (0, SEGMENTS // 2):
        plan = rare.run(Plans(RowReader(rare.log)).message(position, asyncio.to_thread))
        assert rare.read_aside() == 1
        assert plan == reader.plan_message(position)
        stored_ms = rare.run(Plans(RowReader(rare.log)).stored_ms(position, asyncio.to_thread))
        assert stored_ms == stored_ms_now(reader, position)
        rare.files.threads.clear()
    with pytest.raises(MessageNotFound):
        rare.run(Plans(reader).message(rare.log.next_position, asyncio.to_thread))


def test_what_leaves_the_log_while_it_is_planned_is_left_out_or_said_to_be_gone(rare: Rare) -> None:
    kept = rare.log.segments[2].base_position

    async def late(look: Callable[..., Any], *arguments: Any) -> Any:
        while rare.log.min_position < kept:
            remove_oldest(rare)
        return await asyncio.to_thread(look, *arguments)

    wanted = every_second(rare)
    found = rare.run(Plans(RowReader(rare.log)).rows(wanted, late))
    assert rare.log.min_position == kept > wanted[0]
    assert [position for plan in found for position in plan.positions] == [each for each in wanted if each >= kept]
    kept = rare.log.segments[1].base_position
    with pytest.raises(PositionGone):
        rare.run(Plans(RowReader(rare.log)).message(rare.log.min_position, late))
    kept = rare.log.segments[1].base_position
    stored_ms = stored_ms_now(RowReader(rare.log), kept)
    assert rare.run(Plans(RowReader(rare.log)).stored_ms(rare.log.min_position, late)) == stored_ms
    assert rare.log.min_position == kept
    kept = rare.log.segments[1].base_position
    queue = rare.log.topics.queue("b", 0)
    assert rare.run(Plans(RowReader(rare.log)).offsets_at_time([queue], 0, late)) == [queue.min_offset]
    assert rare.log.min_position == kept


def test_rows_are_planned_though_their_segment_is_written_no_more_and_others_come(rare: Rare) -> None:
    """What comes meanwhile was not asked for by who names it: it was not there."""
    queue = rare.log.topics.queue("b", 0)
    end = rare.log.next_position

    async def late(look: Callable[..., Any], *arguments: Any) -> Any:
        await rare.log.append(RowsAppend([make_row(body=b"next")] * 2, [queue] * 2))
        await begin_segment(rare.log)
        await rare.log.append(RowsAppend([make_row(body=b"one more")], [queue]))
        return await asyncio.to_thread(look, *arguments)

    reader = RowReader(rare.log)
    found = rare.run(Plans(reader).rows([0, *range(end - 1, end + 3)], late))
    assert [plan.positions for plan in found] == [[0], [end - 1]]
    read = reader.read_rows(found, 2**20)
    assert (len(read.parts), read.lost, read.damaged) == (2, [], [])
    assert rare.log.next_position == end + 3


def test_who_goes_while_an_index_is_read_leaves_nothing_behind(rare: Rare) -> None:
    reader = RowReader(rare.log)
    begun, goes_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(look: Callable[..., Any], *arguments: Any) -> Any:
        begun.set()
        assert goes_on.wait(60)
        found = look(*arguments)
        done.set()
        return found

    async def aside(look: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(slow, look, *arguments)

    async def going() -> None:
        task = asyncio.create_task(Plans(reader).rows([0], aside))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    rare.run(going())
    goes_on.set()
    assert done.wait(60)
    (plan,) = rare.run(Plans(RowReader(rare.log)).rows([0], asyncio.to_thread))
    assert plan.positions == [0]
    assert reader.known_index(rare.log.segments[0]) is None
