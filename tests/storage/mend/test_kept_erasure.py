"""What is erased is gone from what was cut off the log too, whatever crashes; other messages of that position stay."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from pyroaring import BitMap64

from lakemq.settings import MIB
from lakemq.storage.log.positions import Reserved
from lakemq.storage.mend.closed_log import ClosedLog
from lakemq.storage.mend.erasure import Erased, Eraser
from lakemq.storage.mend.kept_erasure import KeptErasure, erase_kept
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.mend.truncate import cut_log
from lakemq.storage.slices.kept_frames import messages_in
from lakemq.testing import FaultyFiles
from tests.storage.cut_logs import make_log
from tests.storage.harness import LogHarness
from tests.storage.stopping_files import Stopped, StoppingFiles

CUT_AT = 10


class UnreadableFiles(FaultyFiles):
    """The disk can't read the files of these names."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.unreadable = names
        self._names: dict[int, str] = {}

    def open_append(self, path: Path) -> int:
        descriptor = super().open_append(path)
        self._names[descriptor] = path.name
        return descriptor

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        if self._names.get(descriptor) in self.unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(descriptor, size, offset)


def erase(harness: LogHarness, *positions: int) -> Erased:
    log, reader = harness.log, harness.reader
    return harness.run(Eraser(log, reader, Replacing(log, reader)).erase(BitMap64(positions)))


def make(folder: Path) -> tuple[LogHarness, Path]:
    """A log that was closed, and beside it what was cut off its copy: as where frames are taken again."""
    harness = LogHarness(folder / "log")
    make_log(harness)
    harness.close()
    shutil.copytree(folder / "log", folder / "copy")
    copy = LogHarness(folder / "copy")
    done = cut_log(ClosedLog(copy.files, copy.directory), CUT_AT, 0, Reserved(0, 0), MIB)
    assert done is not None
    shutil.copy(copy.directory / done.kept, harness.directory / done.kept)
    return harness, harness.directory / done.kept


def kept(path: Path) -> list[tuple[int, str]]:
    return [(message["position"], message["body"]) for message in messages_in(path, "b")]


def test_what_the_log_has_too_is_erased_and_all_else_stays_as_it_was(tmp_path: Path) -> None:
    harness, path = make(tmp_path)
    before = kept(path)
    first, second = [position for position, body in before if body == "and more"][1:3]
    half_written = path.with_name(path.name + ".tmp")
    half_written.write_bytes(b"of a cut that a crash ended")
    harness.open()
    assert erase(harness, 2, first, second).erased == 3
    assert kept(path) == [each for each in before if each[0] not in (first, second)]
    assert not half_written.exists()
    data = path.read_bytes()
    assert erase(harness, 2, first).erased == 0
    assert path.read_bytes() == data
    harness.close()


def test_another_message_of_that_position_stays(tmp_path: Path) -> None:
    """The log goes on in a later epoch from where it was cut."""
    _, path = make(tmp_path)
    copy = LogHarness(tmp_path / "copy").open()
    other = copy.directory / path.name
    before = other.read_bytes()
    position, _ = kept(other)[1]
    copy.append("a", 0, b"later")
    assert copy.log.identity.epoch_of(position) > 1
    erase(copy, position, copy.log.next_position - 1)
    assert other.read_bytes() == before
    copy.close()


def test_what_can_not_be_read_of_it_is_dropped(tmp_path: Path) -> None:
    harness, path = make(tmp_path)
    before, data = kept(path), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    harness.open()
    erase(harness, before[0][0])
    left = kept(path)
    assert left == before[1 : 1 + len(left)]
    assert len(left) >= len(before) - 3
    harness.close()


def test_a_crash_leaves_it_as_it_was_or_without_what_is_erased_and_the_next_try_ends_it(tmp_path: Path) -> None:
    harness, path = make(tmp_path)
    data, before = path.read_bytes(), kept(path)
    identity = ClosedLog(harness.files, harness.directory).identity
    erasure = KeptErasure(identity, BitMap64([before[0][0]]))
    step, done = 0, False
    while not done:
        path.write_bytes(data)
        files = StoppingFiles()
        files.steps_left = step
        with suppress(Stopped):
            erase_kept(files, harness.directory, harness.settings, erasure)
            done = True
        assert kept(path) in (before, before[1:])
        erase_kept(harness.files, harness.directory, harness.settings, erasure)
        assert kept(path) == before[1:]
        assert [each.name for each in harness.directory.glob("cut-*")] == [path.name]
        step += 1
    assert step > 5


def test_one_that_can_not_be_read_keeps_no_other_from_being_done_and_is_said(tmp_path: Path) -> None:
    harness, path = make(tmp_path)
    before, other = kept(path), path.with_name(path.name.replace(".frames", "-2.frames"))
    shutil.copy(path, other)
    erasure = KeptErasure(ClosedLog(harness.files, harness.directory).identity, BitMap64([before[0][0]]))
    files = UnreadableFiles(path.name)
    (left,) = erase_kept(files, harness.directory, harness.settings, erasure)
    assert left.startswith(path.name)
    assert os.strerror(errno.EIO) in left
    assert (kept(path), kept(other)) == (before, before[1:])
    files.unreadable = ()
    assert erase_kept(files, harness.directory, harness.settings, erasure) == []
    assert kept(path) == before[1:]
