"""What a consumer holds of a queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakemq.client.consume.process_queue import Limits, ProcessQueue, Work


def filled(count: int, limits: Limits | None = None, bytes_held: int = 0) -> ProcessQueue[int]:
    queue = ProcessQueue[int](100, limits)
    queue.put(list(range(100, 100 + count)), range(100, 100 + count), bytes_held, 100 + count)
    return queue


def take(queue: ProcessQueue[int], count: int) -> Work[int]:
    work = queue.take(count)
    assert work is not None
    return work


def test_the_lowest_unfinished_offset_waits_for_who_is_slow() -> None:
    queue = filled(10)
    slow, quick = take(queue, 3), take(queue, 3)
    queue.finish(quick)
    assert queue.lowest_unfinished == 100
    slow.done = 2
    assert queue.lowest_unfinished == 102
    queue.finish(slow)
    assert queue.lowest_unfinished == 106
    queue.finish(take(queue, 10))
    assert queue.lowest_unfinished == 110


def test_offsets_that_a_filter_left_out_count_as_finished() -> None:
    queue = ProcessQueue[int](0)
    queue.put([3, 9], [3, 9], 0, 50)
    work = take(queue, 1)
    assert queue.lowest_unfinished == 3
    queue.finish(work)
    assert queue.lowest_unfinished == 9
    queue.finish(take(queue, 1))
    assert queue.lowest_unfinished == 50


def test_no_more_is_pulled_than_the_limits_leave() -> None:
    assert filled(0, Limits(messages=10)).room == 10
    assert filled(5, Limits(messages=10)).room == 5
    assert filled(6, Limits(messages=10)).room == 0, "not for a few only"
    assert filled(2, Limits(bytes=1000), bytes_held=1000).room == 0
    assert filled(2, Limits(bytes=1000), bytes_held=500).room == 3
    queue = filled(4, Limits(span=5))
    slow = take(queue, 1)
    queue.finish(take(queue, 3))
    queue.put([], [], 0, 105)
    assert queue.room == 0, "the first is in work still"
    queue.finish(slow)
    assert queue.room == 1000


def test_what_is_dropped_ends_where_nobody_took_on() -> None:
    queue = filled(10)
    work = take(queue, 4)
    work.done = 2
    queue.drop()
    assert queue.take(1) is None
    assert queue.lowest_unfinished == 102
    assert not queue.quiet.is_set()
    queue.leave(work)
    assert queue.quiet.is_set()
    assert queue.lowest_unfinished == 102
    queue.finish(work)
    assert queue.lowest_unfinished == 104


def test_work_that_keeps_a_few_messages_is_finished_with_them() -> None:
    queue = filled(5)
    work = take(queue, 5)
    work.keep([1, 3])
    assert work.messages == [101, 103]
    assert queue.lowest_unfinished == 101
    queue.finish(work)
    assert (queue.count, queue.lowest_unfinished) == (0, 105)


class Machine(RuleBasedStateMachine):
    """A process queue beside the set of all unfinished offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue[int](0, Limits(messages=50, bytes=10_000, span=80))
        self.unfinished: set[int] = set()
        self.out: list[Work[int]] = []

    @rule(gaps=st.lists(st.integers(0, 3), max_size=20), tail=st.integers(0, 3), size=st.integers(0, 300))
    def put(self, gaps: list[int], tail: int, size: int) -> None:
        offsets: list[int] = []
        offset = self.queue.next_offset
        for gap in gaps:
            offset += gap
            offsets.append(offset)
            offset += 1
        self.queue.put(list(offsets), offsets, size * len(offsets), offset + tail)
        self.unfinished |= set(offsets)

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        work = self.queue.take(count)
        if work is not None:
            assert 1 <= len(work.messages) <= count
            assert work.messages == list(work.offsets)
            self.out.append(work)

    @precondition(lambda self: bool(self.out))
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        work = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        self.queue.finish(work)
        self.unfinished -= set(work.offsets)

    @precondition(lambda self: bool(self.out))
    @rule(data=st.data())
    def count_on(self, data: Any) -> None:
        work = data.draw(st.sampled_from(self.out))
        work.done = data.draw(st.integers(work.done, len(work.messages)))
        self.unfinished -= set(work.offsets[: work.done])

    @invariant()
    def what_may_be_committed_is_the_lowest_that_is_not_finished(self) -> None:
        lowest = self.queue.lowest_unfinished
        assert lowest <= min(self.unfinished, default=self.queue.next_offset)
        assert not self.unfinished or lowest == min(self.unfinished)

    @invariant()
    def nothing_is_held_that_is_finished(self) -> None:
        held = sum(len(work.messages) for work in self.out)
        assert self.queue.count == held + self.queue.waiting
        assert self.queue.quiet.is_set() == (not self.out)
        assert self.queue.bytes >= 0
        assert self.queue.count or self.queue.bytes == 0
        assert self.queue.room <= 50


TestProcessQueue = Machine.TestCase
TestProcessQueue.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_queue_takes_nothing_once_it_is_dropped() -> None:
    queue = filled(1)
    queue.drop()
    with pytest.raises(AssertionError):
        queue.put([1], [1], 0, 2)
