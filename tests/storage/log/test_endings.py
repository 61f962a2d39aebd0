from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import LogVersion, StoreUnwritable
from lakemq.storage.log.appends import OneAppend, RowsAppend
from lakemq.storage.segment import segment_index
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state import endings as endings_module
from lakemq.storage.state.endings import Endings
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.topics import TopicTable
from tests.storage.harness import LogHarness

STEPS = ("put", "store", "delete", "restart", "lose")
STEP = st.tuples(st.sampled_from(STEPS), st.sampled_from("abcdefgh"), st.integers(0, 3))


@given(steps=st.lists(STEP, max_size=60), known=st.integers(0, 4), buckets=st.integers(1, 4))
def test_no_offset_is_given_twice_however_much_is_forgotten(
    steps: list[tuple[str, str, int]], known: int, buckets: int
) -> None:
    given_out: set[tuple[str, int, int]] = set()
    table = TopicTable()
    with pytest.MonkeyPatch.context() as bounds:
        bounds.setattr(endings_module, "QUEUES_MAX", known)
        bounds.setattr(endings_module, "BUCKETS", buckets)
        for step, name, number in steps:
            topic = table.find(name)
            if step == "put":
                queues = max(number + 1, len(topic.queues) if topic else 0)
                table.apply({"op": "put", "topic": name, "queues": queues, "permission": "rw"})
            elif step == "delete":
                table.apply({"op": "delete", "topic": name, "queues": 0, "permission": "rw"})
            elif step == "restart":
                dumped = json.loads(json.dumps(table.dump()))
                table = TopicTable()
                table.restore(dumped)
                assert json.loads(json.dumps(table.dump())) == dumped
            elif step == "lose":
                table.pass_over(number)
            elif topic and number < len(topic.queues):
                queue = topic.queues[number]
                assert queue.floor <= queue.next_offset
                place = name, number, queue.next_offset
                assert place not in given_out
                given_out.add(place)
                queue.next_offset += 1
            assert sum(len(ends) for ends in table.endings.dump()["known"].values()) <= known
            assert table.queue_count == len(list(table.all_queues()))


def test_what_never_held_a_message_leaves_nothing() -> None:
    table = TopicTable()
    for number in range(3_000):
        table.apply({"op": "put", "topic": f"t{number}", "queues": 10, "permission": "rw"})
        table.apply({"op": "delete", "topic": f"t{number}", "queues": 10, "permission": "rw"})
    assert table.endings.dump() == {"least": 0, "known": {}, "forgotten": []}
    assert not table.deleted


def test_a_topic_made_again_with_fewer_queues_remembers_the_others() -> None:
    endings = Endings()
    endings.add("a", [3, 0, 7])
    endings.add("a", [5])
    assert [endings.begin("a", queue_id) for queue_id in range(4)] == [5, 0, 7, 0]


def test_forgotten_names_leave_their_highest_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings_module, "QUEUES_MAX", 1)
    endings = Endings()
    endings.add("a", [3, 9])
    assert [endings.begin("a", queue_id) for queue_id in range(3)] == [9, 9, 9]
    endings.add("a", [9])  # nothing new was stored in it
    assert endings.dump()["known"] == {}
    endings.pass_over(10)
    assert (endings.begin("a", 0), endings.begin("b", 0)) == (19, 10)


def test_who_comes_too_late_for_a_topic_is_refused_and_nobody_else(harness: LogHarness) -> None:
    """A frame with messages of a topic that was forgotten made the topic again at the next start."""
    harness.put_topic("late", 2)
    harness.append("late", 0, b"in time")
    late, there = harness.queue("late"), harness.queue("a")
    harness.delete_topic("late")

    async def store() -> tuple[object, ...]:
        log = harness.log
        rows = (
            log.append(RowsAppend([make_row(body=b"rows")], [late])),
            log.append(RowsAppend([make_row(body=b"there")], [there])),
        )
        ones = log.append(OneAppend(make_row(body=b"one"), late)), log.append(OneAppend(make_row(body=b"one"), there))
        return await asyncio.gather(*rows, *ones, return_exceptions=True)

    results = harness.run(store())
    assert [isinstance(result, StoreUnwritable) for result in results] == [True, False, True, False]
    for _ in range(2):
        assert harness.log.topics.find("late") is None
        assert [message.body for message in harness.read_queue("a", 0)] == [b"one", b"there"]
        harness.reopen()
    harness.put_topic("late")
    assert harness.append("late", 0, b"again").placed[0].queue_offset == 1


def test_topics_that_come_and_go_roll_the_segment(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their queues stayed in the index of the segment that was written, in memory."""
    monkeypatch.setattr(segment_index, "NEW_QUEUES_MAX", 50)
    harness.reopen()
    for number in range(200):
        harness.put_topic(f"t{number}", 1)
        harness.append(f"t{number}", 0, b"x")
        harness.delete_topic(f"t{number}")
    harness.settle()
    assert len(harness.log.segments) >= 4
    assert len(harness.log.active_index.queues) < 70
    assert all(f"t{number}" not in [topic.name for topic in harness.log.topics] for number in range(200))


def test_a_state_of_before_is_refused_by_name(harness: LogHarness) -> None:
    dumped = {**harness.log.state.dump(), "topics": []}
    with pytest.raises(LogVersion, match="deleted topic"):
        LogState().restore(dumped)
