"""Old segments go when they may, and never before."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.model.errors import MessageNotFound
from lakemq.settings import HOUR_MS
from lakemq.testing import FaultyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness

RETENTION_MS = 72 * HOUR_MS


def _three_segments(harness: LogHarness) -> None:
    harness.append("a", 1, b"in the first segment")
    harness.roll("a")
    harness.append("a", 1, b"in the second segment")
    harness.roll("a")
    harness.append("a", 1, b"in the third segment")
    harness.settle()
    assert len(harness.log.segments) == 3


def test_segment_past_retention_but_not_compacted_stays(harness: LogHarness) -> None:
    _three_segments(harness)
    harness.clock.time_ms += 2 * RETENTION_MS
    assert harness.log.retain() == 0
    harness.log.retention.certain_position = harness.log.segments[1].base_position - 1
    assert harness.log.retain() == 0
    assert harness.log.min_position == 0


def test_segment_compacted_but_within_retention_stays(harness: LogHarness) -> None:
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += RETENTION_MS
    assert harness.log.retain() == 0
    harness.clock.time_ms += 1
    assert harness.log.retain() == 2


def test_segments_past_retention_and_compacted_go_and_the_rest_is_still_there(harness: LogHarness) -> None:
    _three_segments(harness)
    base = harness.log.segments[1].base_position
    before = harness.read_log()
    harness.log.retention.certain_position = base
    harness.clock.time_ms += 2 * RETENTION_MS
    assert harness.log.retain() == 1
    assert harness.log.min_position == base
    assert harness.read_log() == [message for message in before if message.position >= base]
    assert harness.queue("a", 1).min_offset == 1
    assert [message.body for message in harness.read_queue("a", 1, 1)] == [
        b"in the second segment",
        b"in the third segment",
    ]
    with pytest.raises(MessageNotFound):
        harness.reader.message(base - 1)
    assert sorted(path.name for path in harness.directory.iterdir() if path.suffix == ".log") == [
        segment.path.name for segment in harness.log.segments
    ]


def test_active_segment_never_goes(harness: LogHarness) -> None:
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 2 * RETENTION_MS
    assert harness.log.retain() == 2
    assert harness.log.retain() == 0
    assert harness.read_log()[-1].body == b"in the third segment"


def test_min_offsets_are_the_same_after_a_restart(harness: LogHarness) -> None:
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 2 * RETENTION_MS
    harness.log.retain()
    bounds = [(queue.key, queue.min_offset, queue.next_offset) for queue in harness.log.topics.all_queues()]
    harness.reopen()
    assert [(queue.key, queue.min_offset, queue.next_offset) for queue in harness.log.topics.all_queues()] == bounds
    assert harness.log.min_position == harness.log.segments[0].base_position > 0


class _SmallDisk(FaultyFiles):
    """A disk of 100 bytes of which some are free."""

    free = 50

    def free_bytes(self, path: Path) -> tuple[int, int]:
        return self.free, 100


def test_compacted_segments_go_early_when_the_disk_is_crowded(make_log: MakeLog) -> None:
    harness = make_log(disk_high_ratio=0.8)
    harness.crash()
    harness.files = disk = _SmallDisk()
    harness.open()
    harness.put_topic("a")
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.segments[1].base_position
    disk.free = 20
    assert harness.log.retain() == 0
    disk.free = 19
    assert harness.log.retain() == 1
    assert harness.log.retain() == 0


def test_queue_index_survives_retention_while_its_file_is_not_written(harness: LogHarness) -> None:
    """Retention used to drop the index of a segment whose index file could not be written."""
    harness.files.fail_replace = True
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.segments[1].base_position
    harness.clock.time_ms += 2 * RETENTION_MS
    assert harness.log.retain() == 1
    assert [message.body for message in harness.read_queue("a", 1, 1)] == [
        b"in the second segment",
        b"in the third segment",
    ]


def test_writes_stop_below_free_bytes_min_and_go_on_above(make_log: MakeLog) -> None:
    harness = make_log(free_bytes_min=1_000_000)
    harness.put_topic("a")
    harness.files.room_bytes = 999_999
    harness.log.retain()
    assert harness.log.unwritable is not None
    harness.files.room_bytes = None
    harness.log.retain()
    assert harness.log.unwritable is None
    harness.append("a", 0, b"there is room")


# Clocks that are wrong, and a lake that has just been written ---------------------------------


def _certain_and_old(make_log: MakeLog, **settings: object) -> LogHarness:
    harness = make_log(clock_confirm_ms=HOUR_MS, **settings)
    harness.put_topic("a")
    _three_segments(harness)
    harness.log.retention.certain_position = harness.log.next_position
    return harness


def test_a_clock_that_jumps_ahead_takes_nothing_until_it_has_stayed_there(make_log: MakeLog) -> None:
    harness = _certain_and_old(make_log)
    harness.clock.jumped_ms = 10 * RETENTION_MS
    assert harness.log.retain() == 0
    assert harness.log.retention.jump is not None
    harness.clock.time_ms += HOUR_MS - 1
    assert harness.log.retain() == 0
    harness.clock.time_ms += 1
    assert harness.log.retain() == 2


def test_a_jump_is_not_believed_for_a_restart_nor_for_what_was_stored_by_it(make_log: MakeLog) -> None:
    harness = _certain_and_old(make_log)
    harness.clock.jumped_ms = 10 * RETENTION_MS
    assert harness.log.retain() == 0
    harness.append("a", 1, b"stored with a time to come")
    harness.reopen()
    harness.log.retention.certain_position = harness.log.next_position
    assert harness.log.retain() == 0
    harness.clock.jumped_ms = 0
    assert harness.log.retain() == 0
    assert harness.log.retention.jump is None
    harness.clock.time_ms += RETENTION_MS + 1
    assert harness.log.retain() == 2


def test_what_the_lake_has_held_only_a_moment_stays_however_crowded_the_disk_is(make_log: MakeLog) -> None:
    harness = _certain_and_old(make_log, compacted_grace_ms=300_000, disk_high_ratio=0.000001)
    assert harness.log.retain() == 0
    harness.clock.time_ms += 299_999
    assert harness.log.retain() == 0
    harness.clock.time_ms += 1
    assert harness.log.retain() == 2


def test_a_jump_that_a_full_disk_has_no_room_to_note_keeps_nothing_that_may_go(make_log: MakeLog) -> None:
    harness = _certain_and_old(make_log, disk_high_ratio=0.000001)
    harness.clock.jumped_ms = 10 * RETENTION_MS
    harness.files.room_bytes = 0
    assert harness.log.retain() == 2
    harness.files.room_bytes = None
    assert harness.log.retain() == 0
    assert harness.log.retention.jump is not None
    assert (harness.directory / "CLOCK").exists()
