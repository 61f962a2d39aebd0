"""The mark of what was flushed: it is believed whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from crc32c import crc32c

from lakemq.storage.disk.files import Files
from lakemq.storage.log.flush_mark import NAME, NO_MARK, FlushMark, Mark, read_flush_mark
from lakemq.storage.segment.segment import Segment, segment_path
from lakemq.testing import FaultyFiles
from tests.open_files import open_files

MARK_BYTES = 8 + 8 + 36 + 4


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def marked(files: Files, folder: Path, base: int, size: int) -> Segment:
    """A segment of which so much is marked as flushed."""
    segment = Segment(files, segment_path(folder, base), base)
    mark = FlushMark(files, folder)
    mark.set(segment, size)
    mark.close()
    return segment


def test_mark_says_segment_size_and_run_of_the_machine(files: FaultyFiles, tmp_path: Path) -> None:
    assert read_flush_mark(files, tmp_path) == NO_MARK == Mark(0, 0, "")
    assert marked(files, tmp_path, 2**60 + 3, 2**40 + 8).flushed_bytes == 2**40 + 8
    assert read_flush_mark(files, tmp_path) == Mark(2**60 + 3, 2**40 + 8, "boot 0")
    files.boots = 11
    marked(files, tmp_path, 5, 16)
    assert read_flush_mark(files, tmp_path) == Mark(5, 16, "boot 11")
    assert (tmp_path / NAME).stat().st_size == MARK_BYTES, "what was there before is written over"


def test_mark_of_this_machine_names_its_run(tmp_path: Path) -> None:
    files = Files()
    marked(files, tmp_path, 1, 8)
    assert read_flush_mark(files, tmp_path).boot == files.boot_id()


def test_mark_stands_as_the_page_about_the_format_says(files: FaultyFiles, tmp_path: Path) -> None:
    marked(files, tmp_path, 0x0102, 0x0304)
    boot = b"boot 0" + bytes(30)
    content = (0x0102).to_bytes(8, "little") + (0x0304).to_bytes(8, "little") + boot
    assert (tmp_path / NAME).read_bytes() == content + crc32c(content).to_bytes(4, "little")


def test_mark_that_is_torn_longer_or_has_a_flipped_bit_says_nothing(files: FaultyFiles, tmp_path: Path) -> None:
    marked(files, tmp_path, 3, 24)
    whole = (tmp_path / NAME).read_bytes()
    for size in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:size])
        assert read_flush_mark(files, tmp_path) == NO_MARK
    (tmp_path / NAME).write_bytes(whole + b"\0")
    assert read_flush_mark(files, tmp_path) == NO_MARK
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / NAME).write_bytes(flipped)
        assert read_flush_mark(files, tmp_path) == NO_MARK
    (tmp_path / NAME).write_bytes(whole)
    assert read_flush_mark(files, tmp_path) == Mark(3, 24, "boot 0")


def test_mark_that_cannot_be_read_is_no_missing_one(files: FaultyFiles, tmp_path: Path) -> None:
    marked(files, tmp_path, 3, 24)
    files.fail_read = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        read_flush_mark(files, tmp_path)


class Full(FaultyFiles):
    """A disk that takes nothing over what is there."""

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_flush_went_well_though_the_mark_of_it_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Full()
    assert marked(files, tmp_path, 3, 24).flushed_bytes == 24
    assert read_flush_mark(files, tmp_path) == NO_MARK
    assert caplog.messages == ["can't write how far the log is flushed: [Errno 28] No space left on device"]


def test_mark_gives_its_descriptor_back(files: FaultyFiles, tmp_path: Path) -> None:
    before = open_files(tmp_path)
    segment = Segment(files, segment_path(tmp_path, 3), 3)
    mark = FlushMark(files, tmp_path)
    mark.set(segment, 24)
    assert open_files(tmp_path / NAME) == [str(tmp_path / NAME)]
    mark.close()
    assert open_files(tmp_path) == before == []
