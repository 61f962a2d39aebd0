"""Whatever read the disk refuses, in a start or later: what is answered is right, and what is not says so by a code."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lakemq.model.errors import Busy, LogDamaged, PositionGone
from lakemq.storage.mend.verify import verify_log
from lakemq.testing import FaultyFiles
from tests.storage.harness import LogHarness
from tests.storage.read_faults import count_reads, run_read_fault

FIRST, ROUNDS, LONG_ROUNDS = 20_000, 8, 400


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(LONG_ROUNDS, marks=pytest.mark.long)])
def test_reads_that_the_disk_refuses_cost_nothing_and_are_told_with_a_code(tmp_path: Path, rounds: int) -> None:
    reads = count_reads(tmp_path)
    for seed in range(FIRST, FIRST + rounds):
        run_read_fault(seed, reads)


def _seal_first(harness: LogHarness) -> None:
    harness.append("a", 0, b"message")
    harness.roll("a")
    harness.wait_until_sealed()
    harness.log.segments[0].index_path.unlink()


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_index_that_cannot_be_read_now_is_busy_and_no_bug(harness: LogHarness, number: int) -> None:
    """It was an error without a code, which is 500 to a client."""
    _seal_first(harness)
    harness.files.fail_read = number
    with pytest.raises(Busy, match="can't be read now"):
        harness.reader.index(harness.log.segments[0])
    harness.files.fail_read = None
    assert harness.reader.index(harness.log.segments[0]).end_position == harness.log.segments[1].base_position


def test_index_of_a_segment_that_is_missing_is_damage_unless_it_has_left(harness: LogHarness) -> None:
    _seal_first(harness)
    segment = harness.log.segments[0]
    segment.close()
    segment.path.unlink()
    with pytest.raises(LogDamaged, match="its file is missing"):
        harness.reader.index(segment)
    harness.log.segments.remove(segment)
    with pytest.raises(PositionGone, match="has left the log"):
        harness.reader.index(segment)


def test_index_that_cannot_be_read_is_not_taken_for_a_missing_one_by_verify(harness: LogHarness) -> None:
    harness.append("a", 0, b"message")
    harness.close()
    index = harness.segment_paths()[0].with_suffix(".idx")
    index.unlink()
    index.mkdir()  # to be read, as a file, it is an error
    with pytest.raises(IsADirectoryError):
        verify_log(harness.settings.data_dir)


class _Unremovable(FaultyFiles):
    """Files of which none can be removed for a while."""

    fail_remove = False

    def remove(self, path: Path) -> None:
        if self.fail_remove:
            raise OSError(errno.EIO, "can't remove")
        super().remove(path)


def test_segment_whose_removal_fails_stays_in_the_log_and_leaves_no_gap(tmp_path: Path) -> None:
    """It used to leave the log, its file stayed, and the next removal left a gap behind it: damage to a start."""
    harness = LogHarness(tmp_path)
    files = harness.files = _Unremovable()
    harness.open()
    harness.put_topic("a")
    for _ in range(3):
        harness.roll("a")
        harness.settle()
    log = harness.log
    bases = [segment.base_position for segment in log.segments]
    queues = [(queue.key, queue.min_offset) for queue in log.topics.all_queues()]
    files.fail_remove = True
    with pytest.raises(OSError, match="can't remove"):
        log._store.remove_oldest(log.topics)  # pyright: ignore[reportPrivateUsage]
    files.fail_remove = False
    assert [(queue.key, queue.min_offset) for queue in log.topics.all_queues()] == queues  # so all can be read
    log._store.remove_oldest(log.topics)  # pyright: ignore[reportPrivateUsage]
    assert [(queue.key, queue.min_offset) for queue in log.topics.all_queues()] != queues
    assert [segment.base_position for segment in log.segments] == bases[1:]
    harness.reopen()
    assert [segment.base_position for segment in harness.log.segments] == bases[1:]
    harness.crash()
