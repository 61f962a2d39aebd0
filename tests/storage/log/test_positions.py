"""No position, and no offset of a queue, is given twice, whatever is lost of the log."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakemq.model.errors import MessageNotFound, StoreUnwritable
from lakemq.storage.log import positions
from lakemq.storage.log.appends import OneAppend, RowsAppend
from lakemq.storage.log.positions import BLOCK_MIN, RESERVED, UNKNOWN_BLOCK, WRITTEN, read_reserved
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.segment.rows import make_row
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness


def _lose_the_tail(harness: LogHarness, size: int) -> None:
    """Leave so much of the active segment, as a power cut does."""
    path = harness.active.path
    harness.crash()
    with path.open("r+b") as file:
        file.truncate(size)
    for hint in ("FLUSHED", path.with_suffix(".idx").name):
        path.with_name(hint).unlink(missing_ok=True)
    harness.files.boots += 1


def test_nothing_is_passed_over_where_nothing_can_be_lost(harness: LogHarness) -> None:
    log = harness.log.identity.now
    harness.append("a", 0, b"one")
    harness.reopen()  # a process that was killed
    harness.append("a", 0, b"two")
    harness.close()
    harness.files.boots += 1  # a clean stop, then another start of the machine
    harness.open()
    assert harness.append("a", 0, b"three").placed[0][1:] == (2, 3)
    assert harness.log.identity.now == log
    assert harness.log.topics.endings.least == 0


@pytest.mark.parametrize("rebooted", [True, False])
def test_after_a_lost_tail_all_goes_on_beyond_what_was_given(
    harness: LogHarness, caplog: pytest.LogCaptureFixture, tmp_path: Path, rebooted: bool
) -> None:
    harness.append("a", 0, b"kept")
    kept, size, log = harness.read_log(), harness.active.size, harness.log.identity.now
    harness.append("a", 0, b"lost")
    harness.put_topic("lost")
    harness.append("lost", 0, *[b"lost too"] * 3)
    harness.delete_topic("a")
    told = harness.log.next_position
    _lose_the_tail(harness, size)
    harness.files.boots -= not rebooted
    harness.open()
    assert harness.log.identity.now == (log.log_id, log.epoch + 1)
    assert f"positions {len(kept)} to {BLOCK_MIN - 1} are given to no message, epoch 2 begins" in caplog.text
    assert harness.read_log() == kept
    lost = BLOCK_MIN - len(kept)
    assert harness.append("a", 0, b"next").placed[0][1:] == (1 + lost, BLOCK_MIN)
    assert harness.append("a", 1, b"first of its queue").placed[0].queue_offset == lost
    harness.put_topic("lost")  # one of that name had offsets that somebody was told of
    assert harness.append("lost", 0, b"next").placed[0].queue_offset == lost
    assert told < BLOCK_MIN
    with pytest.raises(MessageNotFound):
        harness.reader.message(told - 1)
    assert [message.body for message in harness.read_queue("a", 0)] == [b"kept", b"next"]
    identity = harness.log.identity
    assert [identity.epoch_of(at) for at in (0, len(kept) - 1, len(kept), BLOCK_MIN)] == [1, 1, 2, 2]
    before = harness.read_log()
    harness.reopen()
    assert harness.log.identity.dump() == identity.dump()
    assert harness.read_log() == before
    assert harness.log.topics.endings.least == lost
    harness.close()
    assert verify_log(tmp_path).sound


def test_lag_counts_no_message_that_never_was(harness: LogHarness) -> None:
    for round_number in range(3):
        harness.append("a", 0, b"kept")
        size = harness.active.size
        _lose_the_tail(harness, size)
        harness.open()
        queue = harness.queue("a")
        assert queue.count_from(0) == round_number + 1
        assert len(queue.gaps) == round_number + 1
    harness.reopen()
    queue = harness.queue("a")
    assert queue.count_from(0) == 3
    assert queue.count_from(queue.gaps[1][0]) == queue.count_from(queue.gaps[1][1]) == 1
    assert queue.count_from(queue.next_offset) == 0
    assert harness.queue("a", 1).gaps == []  # nothing was ever there: it begins later
    assert harness.queue("a", 1).min_offset == harness.queue("a", 1).next_offset > 0


def test_a_read_passes_over_a_gap_in_one_step(harness: LogHarness) -> None:
    harness.append("a", 0, b"kept")
    _lose_the_tail(harness, harness.active.size)
    harness.open()
    queue = harness.queue("a")
    harness.append("a", 0, b"next")
    ((begin, end),) = queue.gaps
    for offset in (begin, begin + 7, end - 1):
        plan = harness.reader.plan(queue, offset, 1, 1)
        assert (plan.begin, plan.end, plan.extents) == (offset, end, [])


def test_a_time_finds_a_message_and_no_gap(harness: LogHarness) -> None:
    harness.append("a", 0, b"kept")
    kept = harness.log.next_position - 1
    _lose_the_tail(harness, harness.active.size)
    harness.clock.time_ms += 5
    harness.open()
    after, time_ms = harness.log.next_position, harness.clock.time_ms
    harness.clock.time_ms += 5
    harness.append("a", 0, b"next")
    harness.reopen()
    assert harness.reader.position_at_time(time_ms - 5) <= kept
    for later_ms in (time_ms, time_ms + 5):
        assert harness.reader.position_at_time(later_ms) == after


@pytest.mark.parametrize("content", [None, b"", b"x" * 32])
def test_without_its_bound_a_log_goes_on_far_beyond(
    harness: LogHarness, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    harness.append("a", 0, b"kept")
    end = harness.log.next_position
    harness.close()
    path = harness.directory / RESERVED
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    harness.open()
    assert harness.log.next_position == end + UNKNOWN_BLOCK
    assert "it is not known which positions were given out" in caplog.text
    assert harness.append("a", 0, b"next").placed[0].position == end + UNKNOWN_BLOCK


def test_a_process_that_died_counts_as_a_loss_where_memory_does_not_survive(make_log: MakeLog) -> None:
    harness = make_log(memory_survives=False)
    harness.reopen()
    assert harness.log.identity.now.epoch == 2
    harness.close()
    harness.open()
    assert harness.log.identity.now.epoch == 2


def test_a_lost_mark_counts_as_a_loss(harness: LogHarness) -> None:
    harness.crash()
    (harness.directory / WRITTEN).unlink()
    harness.open()
    assert harness.log.identity.now.epoch == 2


def test_an_appends_waits_for_its_positions(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.close()
    monkeypatch.setattr(positions, "BLOCK_MIN", 10)
    monkeypatch.setattr(positions, "BLOCK_MAX", 10)
    harness.open()
    log_id = harness.log.identity.now.log_id
    for count in (8, 100, 3):
        before = harness.log.next_position
        stored = harness.append("a", 0, *[b"x"] * count)
        assert [placed.position for placed in stored.placed] == list(range(before, before + count))
        bound = read_reserved(harness.files, harness.directory, log_id)
        assert bound is not None
        assert bound.bound >= harness.log.next_position
    end = harness.log.next_position
    harness.close()
    assert read_reserved(harness.files, harness.directory, log_id) == (1, end)


def test_without_positions_nothing_is_stored(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness.close()
    monkeypatch.setattr(positions, "BLOCK_MIN", 10)
    harness.open()
    harness.files.fail_replace = True
    end = harness.log.next_position

    async def store() -> Sequence[object]:
        queue = harness.queue("a")
        some = harness.log.append(RowsAppend([make_row(body=b"x")] * 20, [queue] * 20))
        return await asyncio.gather(
            some, harness.log.append(OneAppend(make_row(body=b"y"), queue)), return_exceptions=True
        )

    for error in harness.run(store()):
        assert isinstance(error, StoreUnwritable)
        assert "no positions can be reserved" in error.detail
    assert harness.log.next_position == end
    for _ in range(3):  # regression: it said that it takes writes again, and refused the next one
        harness.log.retain()
        harness.run(asyncio.sleep(0.002))
        assert harness.log.unwritable is not None
    assert caplog.text.count("no positions can be reserved") == 1
    harness.files.fail_replace = False
    while harness.log.unwritable is not None:
        harness.log.retain()
        harness.run(asyncio.sleep(0.001))
    assert harness.append("a", 0, *[b"x"] * 20).placed[0].position == end


def test_more_positions_make_no_full_disk_writable(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.close()
    monkeypatch.setattr(positions, "BLOCK_MIN", 10)
    monkeypatch.setattr(positions, "BLOCK_MAX", 10)
    harness.open()
    go_on, replace = threading.Event(), harness.files.replace

    def slow_replace(*arguments: Any) -> None:
        go_on.wait()
        replace(*arguments)

    monkeypatch.setattr(harness.files, "replace", slow_replace)
    harness.append("a", 0, *[b"x"] * 6)  # the next block is being reserved
    harness.files.room_bytes = 0
    with pytest.raises(StoreUnwritable, match="can't be written"):
        harness.append("a", 0, b"no room")
    harness.files.room_bytes = None
    go_on.set()
    harness.wait_until_reserved()
    assert harness.log.unwritable is not None
    harness.log.retain()
    assert harness.append("a", 0, b"room").placed[0].queue_offset == 6


def test_a_full_disk_lets_a_log_be_read(harness: LogHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.append("a", 0, b"kept")
    before = harness.read_log()
    harness.crash()
    harness.files.fail_replace = True
    harness.open()
    assert os.strerror(errno.EIO) in caplog.text
    assert harness.read_log() == before
    with pytest.raises(StoreUnwritable, match="no positions"):
        harness.append("a", 0, b"none")


def test_a_block_that_is_used_up_fast_is_followed_by_a_larger_one(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.close()
    monkeypatch.setattr(positions, "BLOCK_MIN", 8)
    monkeypatch.setattr(positions, "BLOCK_MAX", 64)
    monkeypatch.setattr(positions, "BLOCK_S", 1e9)
    harness.open()
    log_id = harness.log.identity.now.log_id
    for _ in range(20):
        harness.append("a", 0, *[b"x"] * 30)
        harness.settle()
    harness.close()
    harness.open()
    assert read_reserved(harness.files, harness.directory, log_id) == (1, harness.log.next_position + 8)


def test_what_a_repair_could_not_read_is_never_given_again(
    harness: LogHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A frame whose header is lost had offsets that nothing else may say."""
    harness.append("a", 0, b"kept")
    begin = harness.active.size
    harness.append("a", 0, b"lost")
    position = harness.log.next_position
    harness.append("a", 1, b"kept too")
    path = harness.active.path
    harness.crash()
    for name in ("FLUSHED", *(each.name for each in harness.directory.glob("*.idx"))):
        (harness.directory / name).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    data[begin + 20] ^= 1
    path.write_bytes(data)
    assert repair_log(tmp_path).positions_lost == 1
    caplog.set_level(logging.WARNING)
    harness.open()
    assert harness.log.next_position > position + 1
    assert harness.append("a", 0, b"next").placed[0].queue_offset > 1


def test_an_epoch_whose_beginning_is_lost_is_not_begun_again(harness: LogHarness) -> None:
    """Else the ids of what was told in it would name what comes now."""
    size = harness.active.size
    _lose_the_tail(harness, size)
    harness.open()
    harness.append("a", 0, b"told in epoch 2")
    assert harness.log.identity.now.epoch == 2
    _lose_the_tail(harness, size)
    harness.open()
    assert harness.log.identity.now.epoch == 3
    assert harness.log.next_position == 2 * BLOCK_MIN
