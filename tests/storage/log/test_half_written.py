"""What ends a write in the middle, and is no error of the disk, leaves no half of it in the log either."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lakemq.testing import FaultyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness


class _Files(FaultyFiles):
    """`part_bytes`: so much of the next append is written, and there is no memory for the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.part_bytes: int | None = None
        self._is_short = False

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        if self._is_short:
            self._is_short = False
            raise MemoryError
        if self.part_bytes is None:
            return super().append(descriptor, parts)
        data, self.part_bytes = b"".join(map(bytes, parts))[: self.part_bytes], None
        self._is_short = True
        return super().append(descriptor, (data,))


@pytest.fixture(name="files")
def _files() -> _Files:
    return _Files()


@pytest.fixture(name="short")
def _short(make_log: MakeLog, files: _Files) -> LogHarness:
    harness = make_log()
    harness.crash()
    harness.files = files
    harness.open()
    harness.put_topic("a")
    harness.append("a", 0, b"before")
    return harness


def test_frame_for_which_there_is_too_little_memory_is_followed_by_whole_ones(short: LogHarness, files: _Files) -> None:
    files.part_bytes = 50
    with pytest.raises(MemoryError):
        short.append("a", 0, b"too much")
    short.append("a", 0, b"after")
    assert [message.body for message in short.read_queue("a", 0)] == [b"before", b"after"]
    short.reopen()
    assert [message.body for message in short.read_queue("a", 0)] == [b"before", b"after"]


def test_segment_for_which_there_is_too_little_memory_begins_whole_the_next_time(
    short: LogHarness, files: _Files
) -> None:
    failed = asyncio.Event()
    short.loop.set_exception_handler(lambda loop, context: failed.set())
    files.part_bytes = 50
    short.log.begin_segment()
    short.run(failed.wait())
    short.log.begin_segment()
    while len(short.log.segments) < 2:
        short.run(asyncio.sleep(0.001))
    short.wait_until_sealed()
    short.append("a", 0, b"after")
    short.reopen()
    assert [message.body for message in short.read_queue("a", 0)] == [b"before", b"after"]
