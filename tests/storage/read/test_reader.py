"""Reads by queue, position and time, where the state machine's are too small to reach."""

from __future__ import annotations

import asyncio
import errno
import logging
import random

import pytest

from lakemq.model.errors import Busy, LogDamaged, MessageNotFound, PositionGone
from lakemq.storage.log.flush_mark import FlushMark
from lakemq.storage.read import reader as reader_module
from lakemq.storage.read.plans import Plans
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.segment.frame import KIND_HOLE
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, Message, incompressible, messages_of, plan_rows_now, whole_frame


@pytest.fixture
def written(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """A log of three segments with many small frames, read back; plans take three frames at most."""
    monkeypatch.setattr(reader_module, "FRAMES_MAX", 3)
    monkeypatch.setattr(reader_module, "READ_BYTES", 2_000)
    harness.put_topic("b", 2)
    chance = random.Random(5)
    for _ in range(2):
        for _ in range(40):
            harness.clock.time_ms += chance.randrange(3)
            topic, queues = chance.choice((("a", 4), ("b", 2)))
            harness.append(topic, chance.randrange(queues), *[b"small"] * chance.randrange(1, 4))
        harness.roll("a")
        harness.append("b", 0, b"first of a segment")
    harness.reopen()
    assert len(harness.log.segments) == 3
    return harness.read_log()


def _limit(harness: LogHarness, topics: set[str], begin: int, end: int, messages_max: int) -> int:
    return harness.run(Plans(harness.reader).limit(topics, begin, end, messages_max, asyncio.to_thread))


def _of(messages: list[Message], topics: set[str]) -> list[Message]:
    return [message for message in messages if message.topic in topics]


def test_plan_that_ends_at_its_bound_of_frames_skips_nothing(harness: LogHarness, written: list[Message]) -> None:
    """Reads went on in the next segment, and skipped what was left of the one before."""
    assert [message.position for message in written] == list(range(harness.log.next_position))
    for topic, queues in (("a", 4), ("b", 2)):
        for queue_id in range(queues):
            found = harness.read_queue(topic, queue_id, bytes_max=10_000_000)
            assert found == [m for m in written if (m.topic, m.queue_id) == (topic, queue_id)]
    for topics in ({"a"}, {"b"}, {"a", "b"}, {"RMQ_SYS_TOPICS"}, {"never made"}, set[str]()):
        assert harness.read_log(topics=topics, bytes_max=10_000_000) == _of(written, topics)


@pytest.mark.parametrize("bytes_max", [1, 500, 5_000, 10_000_000])
def test_any_range_of_positions_is_read_exactly(harness: LogHarness, written: list[Message], bytes_max: int) -> None:
    chance = random.Random(bytes_max)
    for _ in range(60):
        begin, end = sorted(chance.sample(range(len(written) + 1), 2))
        topics = chance.choice((None, {"a"}, {"b"}, {"a", "b"}))
        expected = written[begin:end] if topics is None else _of(written[begin:end], topics)
        assert harness.read_log(begin, end, topics, bytes_max) == expected


def test_limit_takes_no_more_messages_than_asked_and_always_goes_on(
    harness: LogHarness, written: list[Message]
) -> None:
    chance = random.Random(8)
    for _ in range(200):
        names = chance.choice(({"a"}, {"b"}, {"a", "b"}))
        begin, end = sorted(chance.sample(range(len(written) + 1), 2))
        messages_max = chance.randrange(1, 60)
        limit = _limit(harness, names, begin, end, messages_max)
        assert begin < limit <= end
        assert len(_of(written[begin:limit], names)) <= messages_max


def test_limit_takes_whole_frames_beyond_other_topics_messages(harness: LogHarness) -> None:
    harness.put_topic("b")
    begin = harness.append("a", 0, b"1").placed[0].position
    for _ in range(50):
        harness.append("b", 0, b"not asked for")
    last = harness.append("a", 0, b"2").placed[0].position
    assert _limit(harness, {"a"}, begin, last + 1, 2) == last + 1
    assert _limit(harness, {"a"}, begin, last + 1, 1) == last


def test_end_of_a_subscription_stands_still_while_others_write(harness: LogHarness, written: list[Message]) -> None:
    for names in ({"a"}, {"b"}):
        end = harness.reader.end_of(names, 0)
        written = harness.read_log()
        assert _of(written[end:], names) == []
        assert written[end - 1].topic in names
        assert harness.reader.end_of(names, end + 1) == end + 1
        harness.append("b" if names == {"a"} else "a", 0, b"another's")
        assert harness.reader.end_of(names, 0) == end
    assert harness.reader.end_of(set(), 0) == 0


def test_times_and_offsets_are_found_at_every_frame(harness: LogHarness, written: list[Message]) -> None:
    for time_ms in sorted({message.store_time_ms + step for message in written for step in (-1, 0, 1)}):
        expected = next((m.position for m in written if m.store_time_ms >= time_ms), len(written))
        assert harness.reader.position_at_time(time_ms) == expected
        for queue in harness.log.topics.get("b").queues:
            later = [m.queue_offset for m in written[expected:] if (m.topic, m.queue_id) == queue.key]
            offset = later[0] if later else queue.next_offset
            assert harness.reader.offset_at_position(queue, expected) == offset


def test_offset_at_the_logs_end_is_the_queues_end(harness: LogHarness) -> None:
    """It was the offset of the last frame's first message."""
    harness.append("a", 0, b"1", b"2", b"3")
    position = harness.reader.position_at_time(harness.clock.time_ms + 1)
    assert position == harness.log.next_position
    assert harness.reader.offset_at_position(harness.queue("a"), position) == 3


def test_tail_is_read_from_the_cache_and_the_rest_from_files(make_log: MakeLog) -> None:
    harness = make_log(cache_bytes=20_000)
    harness.put_topic("a")
    bodies = [incompressible(number, 3_000) for number in range(20)]
    for body in bodies:
        harness.append("a", 0, body)
    queue = harness.queue("a")
    tail = harness.reader.plan(queue, 19, 10, 1000)
    assert harness.reader.cached(tail)
    assert [m.body for m in messages_of(harness.reader.read(tail))] == bodies[19:]
    whole = harness.reader.plan(queue, 0, 100, 10_000_000)
    assert not harness.reader.cached(whole)
    assert [m.body for m in messages_of(harness.reader.read(whole))] == bodies
    assert not harness.reader.cached(harness.reader.plan_positions(0, 5, None, 1000))


def test_frame_larger_than_the_cache_is_read_from_the_file(make_log: MakeLog) -> None:
    harness = make_log(cache_bytes=10_000)
    harness.put_topic("a")
    harness.append("a", 0, incompressible(1, 20_000))
    assert not harness.reader.cached(harness.reader.plan(harness.queue("a"), 0, 1, 1))
    assert [m.body for m in harness.read_queue("a", 0)] == [incompressible(1, 20_000)]


def test_plan_whose_segment_retention_took_says_so(make_log: MakeLog) -> None:
    harness = make_log(retention_ms=0, cache_bytes=0)
    harness.put_topic("a")
    harness.roll("a")
    plan = harness.reader.plan(harness.queue("a"), 0, 1, 1)
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 1
    harness.settle()
    assert harness.log.retain() == 1
    with pytest.raises(PositionGone):
        harness.reader.read(plan)


def test_bytes_that_rot_while_serving_are_found_by_the_read(make_log: MakeLog) -> None:
    harness = make_log(cache_bytes=0)
    harness.put_topic("a")
    offset = harness.active.size
    position = harness.append("a", 0, b"rots").placed[0].position
    harness.append("a", 0, b"does not")
    data = bytearray(harness.active.path.read_bytes())
    data[offset + 100] ^= 1
    harness.active.path.write_bytes(data)
    with pytest.raises(LogDamaged, match=f"{harness.active.path.name} is damaged at offset {offset}: "):
        harness.reader.message(position)
    assert messages_of([harness.reader.message(position + 1)])[0].body == b"does not"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_disk_that_cannot_be_read_now_is_busy_and_no_damage(make_log: MakeLog, number: int) -> None:
    """It was `log_damaged`, for which a redrive gave the message up and a delivery waited a minute."""
    harness = make_log(cache_bytes=0)
    harness.put_topic("a")
    position = harness.append("a", 0, b"there").placed[0].position
    rows = RowReader(harness.log)
    harness.files.fail_read = number
    with pytest.raises(Busy):
        harness.read_queue("a", 0)
    with pytest.raises(Busy):
        rows.read_rows(plan_rows_now(rows, [position]), 1)
    harness.files.fail_read = None
    assert [part.rows()[position] for part in rows.read_rows(plan_rows_now(rows, [position]), 1).parts]
    assert [message.body for message in harness.read_queue("a", 0)] == [b"there"]


def test_message_that_was_lost_to_damage_is_not_found(harness: LogHarness) -> None:
    harness.append("a", 0, b"before")
    position = harness.log.next_position
    harness.crash()
    with harness.segment_paths()[0].open("ab") as file:
        file.write(
            whole_frame(harness.log.identity.now, KIND_HOLE, position, harness.clock.time_ms, 5, 0, [], b"", b"")
        )
    harness.open()
    assert harness.log.next_position == position + 5
    with pytest.raises(MessageNotFound, match="lost to damage"):
        harness.reader.message(position + 2)
    assert harness.append("a", 0, b"after").placed[0].position == position + 5
    assert [m.body for m in harness.read_queue("a", 0)] == [b"before", b"after"]


@pytest.mark.parametrize("position", [-1, 1, 2**62])
def test_message_outside_the_log_is_not_found(harness: LogHarness, position: int) -> None:
    assert harness.log.next_position == 1
    with pytest.raises(MessageNotFound):
        harness.reader.message(position)


def test_flush_mark_that_cannot_be_written_is_no_failed_flush(
    harness: LogHarness, caplog: pytest.LogCaptureFixture
) -> None:
    mark = FlushMark(harness.files, harness.directory)
    mark.close()
    with caplog.at_level(logging.WARNING):
        mark.set(harness.active, 100)
    assert "can't write how far the log is flushed" in caplog.text
