"""What is dropped from a full log is written down before it goes, and nothing else ever counts as dropped."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lakemq.settings import HOUR_MS, MIB
from lakemq.storage.disk.files import Files
from lakemq.storage.log import dropped
from lakemq.storage.log.dropped import DROPPED, Dropped, Range, covers, read_dropped
from lakemq.testing import FaultyFiles, LossyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, Message

DROPS: dict[str, object] = {"when_full": "drop_oldest", "log_bytes_max": 3 * MIB}
SYNCS = [f"storage.log.dropped.Dropped._write: {kind}" for kind in ("replace.sync", "replace.sync_dir")]
SYNC_OF_REMOVAL = "storage.log.dropped.Dropped._write: sync_dir"


def fill(harness: LogHarness, segments: int = 5) -> list[int]:
    """Fill so many segments; where each begins."""
    harness.put_topic("a")
    while len(harness.log.segments) < segments:
        harness.roll("a")
    harness.append("a", 0, b"the last one")
    harness.settle()
    harness.flush()
    harness.wait_until_sealed()
    return [segment.base_position for segment in harness.log.segments]


def drop(harness: LogHarness) -> list[Range]:
    """Drop all that must go."""
    harness.log.retain()
    gone: list[Range] = []
    while harness.log.retention.to_drop() is not None:
        gone.append(harness.log.retention.drop(harness.log.state))
    return gone


def test_a_full_log_refuses_writes_unless_it_may_drop_its_oldest(make_log: MakeLog) -> None:
    harness = make_log(log_bytes_max=3 * MIB)
    fill(harness)
    assert drop(harness) == []
    assert harness.log.unwritable is not None
    assert "storage.log_bytes_max" in harness.log.unwritable
    assert harness.log.min_position == 0


def test_the_oldest_go_whole_and_are_known_to_be_gone(make_log: MakeLog) -> None:
    harness = make_log(**DROPS)
    bases = fill(harness)
    before = harness.read_log()
    assert drop(harness) == [(0, bases[1]), (bases[1], bases[2]), (bases[2], bases[3])]
    harness.log.retain()
    assert harness.log.unwritable is None
    for _ in range(2):
        assert harness.log.retention.dropped.ranges == [(0, bases[3])]
        assert harness.log.retention.held_position == 0
        assert harness.read_log() == [message for message in before if message.position >= bases[3]]
        harness.reopen()
    harness.append("a", 0, b"there is room")


def test_what_the_lake_holds_is_no_loss(make_log: MakeLog) -> None:
    """It goes first, and early; of a segment that the lake holds in part only the rest counts."""
    harness = make_log(compacted_grace_ms=HOUR_MS, **DROPS)
    bases = fill(harness)
    harness.log.retention.certain_position = bases[1] + 1
    assert drop(harness) == [(bases[1], bases[1]), (bases[1] + 1, bases[2]), (bases[2], bases[3])]
    assert harness.log.retention.dropped.ranges == [(bases[1] + 1, bases[3])]
    assert harness.log.retention.held_position == bases[1] + 1
    harness.log.retain()
    # The lake has come past it.
    harness.log.retention.certain_position = harness.log.next_position
    fill(harness, 4)
    harness.clock.time_ms += 100 * HOUR_MS
    assert harness.log.retain() > 0
    assert harness.log.retention.held_position == harness.log.min_position > bases[3]
    harness.reopen()
    assert harness.log.retention.dropped.ranges == [(bases[1] + 1, bases[3])]
    assert harness.log.retention.held_position == harness.log.min_position


def test_nothing_is_dropped_by_a_clock_that_is_not_believed(make_log: MakeLog) -> None:
    harness = make_log(clock_confirm_ms=HOUR_MS, **DROPS)
    fill(harness)
    harness.clock.jumped_ms = 24 * HOUR_MS
    assert drop(harness) == []
    harness.clock.jumped_ms = 0
    assert drop(harness)


def test_an_index_gives_way_where_nothing_can_be_written_down(make_log: MakeLog) -> None:
    harness = make_log(**DROPS)
    bases = fill(harness)
    index = harness.log.segments[0].index_path
    assert index.exists()
    files, replace = harness.files, FaultyFiles.replace

    class Full(FaultyFiles):
        def replace(self, path: Path, *content: object, **more: object) -> None:
            if index.exists():
                raise OSError("no space left on device")
            replace(files, path, *content, **more)  # pyright: ignore[reportArgumentType]

    files.__class__ = Full
    assert harness.log.retention.drop(harness.log.state) == (0, bases[1])
    assert read_dropped(Files(), harness.directory) == [(0, bases[1])]


# Crashes --------------------------------------------------------------------------------------


class Machine:
    """A full log, to be dropped from by a machine that dies."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._kept, self._folder, self._settings = folder / "kept", folder / "data", settings
        harness = LogHarness(self._kept, **settings).open()
        self.bases = fill(harness)
        self.messages: list[Message] = harness.read_log()
        harness.close()

    def run(self, seed: int, die_at: int | None, skipped: str | None = None) -> LossyFiles:
        """Drop, until the machine dies, or until it has."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._kept, self._folder)
        files = LossyFiles(self._folder, seed)
        harness = LogHarness(self._folder, **self._settings)
        harness.files = files  # pyright: ignore[reportAttributeAccessIssue]
        harness.open()
        files.skipped_site = skipped
        files.calls, files.die_at = 0, die_at
        with suppress(OSError):
            drop(harness)
        harness.crash()
        files.cut_power()
        return files

    def check(self, seed: int) -> None:
        """All is in the log, or known to be gone."""
        harness = LogHarness(self._folder, **self._settings).open()
        begin, ranges = harness.log.min_position, harness.log.retention.dropped.ranges
        try:
            assert covers(ranges, 0, begin), f"seed {seed}: {ranges} and the log begins at {begin}"
            assert all(end <= begin for _, end in ranges), f"seed {seed}"
            assert harness.read_log(end=self.messages[-1].position + 1) == [
                each for each in self.messages if each.position >= begin
            ], f"seed {seed}"
            drop(harness)
            assert harness.log.retention.dropped.ranges == [(0, self.bases[3])], f"seed {seed}"
        finally:
            harness.crash()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"), **DROPS)


def test_power_cut_at_any_call_of_a_drop_leaves_no_gap_that_nobody_knows(machine: Machine) -> None:
    calls = machine.run(0, None).calls
    machine.check(0)
    for number in range(1, calls + 1):
        machine.run(number, number)
        machine.check(number)


@pytest.mark.parametrize("site", SYNCS)
def test_without_either_sync_a_gap_may_be_unknown(machine: Machine, site: str) -> None:
    assert site in machine.run(0, None).sites
    for seed in range(200):
        machine.run(seed, 2 + seed % 20, site)
        try:
            machine.check(seed)
        except AssertionError:
            return
    pytest.fail("nobody noticed")


def forget_what_a_crash_left(kept: Path, folder: Path, seed: int, die_at: int | None, skipped: str | None) -> int:
    """What a crash left in the file is in the lake now, and leaves the log as such, while the machine dies; how many
    calls that takes. Raises `AssertionError` when any of it counts as dropped."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    harness = LogHarness(folder, **DROPS)
    harness.files = files = LossyFiles(folder, seed)  # pyright: ignore[reportAttributeAccessIssue]
    harness.open()
    files.skipped_site = skipped
    files.calls, files.die_at = 0, die_at
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 100 * HOUR_MS
    with suppress(OSError):
        harness.log.retain()
    harness.crash()
    files.cut_power()
    harness = LogHarness(folder, **DROPS).open()
    try:
        is_right = harness.log.min_position == 0 or harness.log.retention.dropped.ranges == []
        assert is_right, f"seed {seed}, call {die_at}"
    finally:
        harness.crash()
    return files.calls


def test_without_its_sync_what_a_crash_left_may_count_after_all(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "data"
    harness = LogHarness(kept, **DROPS).open()
    bases = fill(harness)
    harness.log.retention.dropped.add(0, bases[1])
    harness.crash()
    calls = forget_what_a_crash_left(kept, folder, 0, None, None)
    for number in range(1, calls + 1):
        forget_what_a_crash_left(kept, folder, number, number, None)
    for seed in range(300):
        try:
            forget_what_a_crash_left(kept, folder, seed, 1 + seed % calls, SYNC_OF_REMOVAL)
        except AssertionError:
            return
    pytest.fail("nobody noticed")


def test_what_a_crash_left_to_be_dropped_does_not_count_once_the_lake_holds_it(make_log: MakeLog) -> None:
    harness = make_log(**DROPS)
    bases = fill(harness)
    harness.log.retention.dropped.add(0, bases[1])
    harness.reopen()
    assert harness.log.retention.dropped.ranges == []
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 100 * HOUR_MS
    assert harness.log.retain() > 0
    harness.reopen()
    assert harness.log.retention.dropped.ranges == []
    assert not (harness.directory / DROPPED).exists()


# The file -------------------------------------------------------------------------------------


def test_the_file_is_believed_whole_or_not_at_all(tmp_path: Path) -> None:
    known = Dropped(Files(), tmp_path)
    known.open(0)
    known.add(3, 10)
    known.add(12, 20)
    known.add(20, 30)
    assert read_dropped(Files(), tmp_path) == [(3, 10), (12, 30)]
    assert known.positions == 25
    content = bytearray((tmp_path / DROPPED).read_bytes())
    content[-3] ^= 1
    (tmp_path / DROPPED).write_bytes(content)
    assert read_dropped(Files(), tmp_path) == []


def test_the_ranges_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "RANGES_MAX", 3)
    known = Dropped(Files(), tmp_path)
    for begin in range(0, 50, 10):
        known.add(begin, begin + 5)
    assert known.ranges == [(0, 25), (30, 35), (40, 45)]
    assert known.positions == 25


def test_what_is_covered_lies_in_one_range() -> None:
    ranges = [(3, 10), (12, 30)]
    assert covers(ranges, 3, 10)
    assert covers(ranges, 13, 30)
    assert covers([], 5, 5)
    assert not covers(ranges, 2, 10)
    assert not covers(ranges, 9, 13)
