"""A next segment that could not be begun is gone before anything else is written, and nothing breaks where a power cut
brings it back all the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lakemq.model.errors import LogDamaged, StoreUnwritable
from lakemq.storage.mend.closed_log import ClosedLog
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.testing import FaultyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness


class _Files(FaultyFiles):
    """`failing`: no folder can be brought to disk; `keeping`: and no segment removed. `removed`: what a segment held
    that was."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = self.keeping = False
        self.removed: dict[Path, bytes] = {}

    def sync_dir(self, path: Path) -> None:
        if self.failing:
            raise OSError(errno.EIO, "Input/output error")
        super().sync_dir(path)

    def remove(self, path: Path) -> None:
        if path.suffix == ".log" and self.exists(path):
            if self.keeping:
                raise OSError(errno.EROFS, "Read-only file system")
            self.removed[path] = path.read_bytes()
        super().remove(path)


def _open(make_log: MakeLog) -> tuple[LogHarness, _Files]:
    harness = make_log()
    harness.crash()
    files = harness.files = _Files()
    harness.open()
    harness.put_topic("a")
    harness.append("a", 0, b"before")
    harness.flush()
    return harness, files


def _fail_to_roll(harness: LogHarness, files: _Files) -> None:
    files.failing = True
    harness.log.begin_segment()
    while harness.log.full is None:
        harness.settle()


def _bodies(harness: LogHarness) -> list[bytes]:
    return [message.body for message in harness.read_queue("a", 0)]


@pytest.mark.parametrize("keeping", [False, True])
def test_nothing_is_written_until_it_is_gone_for_certain(make_log: MakeLog, keeping: bool) -> None:
    harness, files = _open(make_log)
    files.keeping = keeping
    _fail_to_roll(harness, files)
    harness.log.retain()
    assert "00000000000000000002.log could not be made, and can't be removed" in (harness.log.full or "")
    with pytest.raises(StoreUnwritable):
        harness.append("a", 0, b"too early")
    files.failing = files.keeping = False
    harness.log.retain()
    assert harness.log.full is None
    assert len(harness.segment_paths()) == 1
    harness.append("a", 0, b"after")
    harness.roll("a", 1)
    harness.reopen()
    assert _bodies(harness) == [b"before", b"after"]


def test_the_next_try_removes_what_is_left_of_the_one_before(make_log: MakeLog) -> None:
    harness, files = _open(make_log)
    files.keeping = True
    _fail_to_roll(harness, files)
    files.failing = files.keeping = False
    size = harness.segment_paths()[1].stat().st_size
    harness.log.full = None
    harness.log.begin_segment()
    while len(harness.log.segments) == 1:
        harness.settle()
    harness.wait_until_sealed()
    assert harness.segment_paths()[1].stat().st_size == size


def _back(make_log: MakeLog, torn: bool = False) -> tuple[LogHarness, Path]:
    """A closed log in which that segment is back; `torn`: and what was written beside it isn't whole."""
    harness, files = _open(make_log)
    _fail_to_roll(harness, files)
    files.failing = False
    harness.log.retain()
    harness.append("a", 0, b"after")
    if not torn:
        harness.flush()
    harness.crash()
    ((path, content),) = files.removed.items()
    path.write_bytes(content)
    files.boots += 1
    if torn:
        with harness.segment_paths()[0].open("r+b") as file:
            file.seek(-8, 2)
            file.write(bytes(8))
    return harness, path


@pytest.mark.parametrize("with_index", [True, False])
def test_a_start_removes_it_where_a_power_cut_brought_it_back(
    make_log: MakeLog, tmp_path: Path, with_index: bool
) -> None:
    harness, path = _back(make_log)
    if not with_index:
        for index in harness.directory.glob("*.idx"):
            index.unlink()
    assert verify_log(tmp_path).damages == []
    assert ClosedLog(harness.files, harness.directory).history.end == 3
    harness.open()
    assert not path.exists()
    assert _bodies(harness) == [b"before", b"after"]


def test_what_was_torn_beside_it_is_cut(make_log: MakeLog) -> None:
    harness, path = _back(make_log, torn=True)
    harness.open()
    assert not path.exists()
    assert harness.log.torn_bytes > 0
    assert _bodies(harness) == [b"before"]


def test_a_repair_leaves_it_to_the_start(make_log: MakeLog, tmp_path: Path) -> None:
    harness, _ = _back(make_log)
    assert repair_log(tmp_path).damages == []
    harness.open()
    assert _bodies(harness) == [b"before", b"after"]


def test_one_that_holds_a_message_is_damage(make_log: MakeLog) -> None:
    harness, path = _back(make_log)
    kept = path.read_bytes()
    frames = harness.segment_paths()[0].read_bytes()
    last = frames.rfind(frames[:8])
    path.write_bytes(kept + frames[last:])
    with pytest.raises(LogDamaged, match="ends with position 3, but the next segment begins with 2"):
        harness.open()
    assert path.exists()


def test_the_last_segment_stays_where_the_one_before_ends_as_it_begins(make_log: MakeLog) -> None:
    harness, _ = _open(make_log)
    harness.roll("a", 1)
    bases = [segment.base_position for segment in harness.log.segments]
    harness.crash()
    for path in harness.directory.iterdir():
        if path.suffix == ".idx" or path.name == "FLUSHED":
            path.unlink()
    harness.open()
    assert [segment.base_position for segment in harness.log.segments] == bases
    assert _bodies(harness) == [b"before"]
