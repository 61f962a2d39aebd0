"""The end of the last segment after a crash, by the rule: what later frames prove, what is cut, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.storage.disk.files import Files
from lakemq.storage.log import torn
from lakemq.storage.log.torn import cut_tail, flushed_by_later_frames
from lakemq.storage.segment.frame import HEADER_BYTES, KIND_STATE, LogEpoch
from lakemq.storage.segment.scan import Broken
from lakemq.storage.segment.segment import Segment
from tests.storage.harness import whole_frame

LOG = LogEpoch(b"0123456789abcdef", 3)
BAD = b"no frame"


def frame(position: int, flushed: int = 0) -> bytes:
    """A frame that says how much of the segment was on disk."""
    return whole_frame(LOG, KIND_STATE, position, 0, 0, 0, [], b"", b"", flushed)


class WatchedFiles(Files):
    """Real files, and the steps that change them."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, object]] = []

    def truncate(self, descriptor: int, size: int) -> None:
        self.steps.append(("truncate", size))
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self.steps.append(("sync", self.size(descriptor)))
        super().sync(descriptor)

    def sync_dir(self, path: Path) -> None:
        self.steps.append(("sync_dir", path))
        super().sync_dir(path)

    def close(self, descriptor: int) -> None:
        self.steps.append(("close", None))
        super().close(descriptor)


def made(folder: Path, data: bytes) -> tuple[WatchedFiles, Segment]:
    files, path = WatchedFiles(), folder / "00000000000000000000.log"
    path.write_bytes(data)
    return files, Segment(files, path, 0)


def proved(folder: Path, data: bytes, at: int = HEADER_BYTES, position_min: int = 1) -> int | None:
    """What later frames prove, of a segment that is broken at `at`."""
    _, segment = made(folder, data)
    return flushed_by_later_frames(segment, Broken(at, "why"), len(data), position_min)


@pytest.mark.parametrize("between", [BAD, BAD * 3, frame(1)[:-8], frame(1)[:40]])
def test_later_frames_prove_the_most_that_any_of_them_says(tmp_path: Path, between: bytes) -> None:
    first = frame(0)
    assert proved(tmp_path, first + between) is None
    assert proved(tmp_path, first + between + frame(1)) == 0
    assert proved(tmp_path, first + between + frame(1, 64)) == 64
    assert proved(tmp_path, first + between + frame(1, 64) + frame(2, 96)) == 96
    assert proved(tmp_path, first + between + frame(1, 96) + frame(2, 64)) == 96
    assert proved(tmp_path, first + between + frame(1, 64) + between + frame(2, 96) + between) == 96
    assert proved(tmp_path, first + between + frame(1, 96) + between + frame(2, 64) + frame(3)) == 96
    assert proved(tmp_path, first + between + frame(1) + between + between + frame(2, 8)) == 8


def test_what_is_no_later_frame_proves_nothing(tmp_path: Path) -> None:
    data = frame(0) + BAD + frame(4, 64)
    assert proved(tmp_path, data, position_min=4) == 64
    assert proved(tmp_path, data, position_min=5) is None, "it is of what was there before"
    second = data + BAD + frame(5, 96)
    assert proved(tmp_path, second, position_min=5) == 96
    assert proved(tmp_path, frame(0) + frame(1, 64), position_min=1) is None, "the bad one itself is none"


def test_what_lies_behind_the_size_is_not_looked_at(tmp_path: Path) -> None:
    data = frame(0) + BAD + frame(1, 64)
    _, segment = made(tmp_path, data + frame(2, 96))
    assert flushed_by_later_frames(segment, Broken(HEADER_BYTES, "why"), len(data), 1) == 64


@pytest.mark.parametrize("tail", [b"t" * 5, b"tail" * 100])
@pytest.mark.parametrize("chunk", [7, 8, torn.CHUNK_BYTES])
def test_tail_is_kept_on_disk_before_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tail: bytes, chunk: int
) -> None:
    monkeypatch.setattr(torn, "CHUNK_BYTES", chunk)
    before = frame(0)
    for number in (1, 2):
        data = before + tail
        files, segment = made(tmp_path, data)
        caplog.clear()
        cut_tail(files, segment, Broken(len(before), "the reason"), len(data), keep=True)
        segment.close()
        kept = tmp_path / f"{segment.path.name}.torn-{number}"
        assert (segment.path.read_bytes(), kept.read_bytes()) == (before, tail)
        steps = [step for step in files.steps if step[0] != "close"]
        assert steps == [("sync", len(tail)), ("sync_dir", tmp_path), ("truncate", len(before))]
        assert files.steps.index(("close", None)) < files.steps.index(("truncate", len(before)))
        cut = f"cut a torn tail of {len(tail)} bytes off segment {segment.path.name} at offset {len(before)}"
        assert caplog.messages == [f"{cut} (the reason); they are kept as {kept.name}"]


def test_tail_of_a_torn_frame_alone_is_cut_and_not_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files, segment = made(tmp_path, frame(0) + BAD)
    cut_tail(files, segment, Broken(HEADER_BYTES, "why"), HEADER_BYTES + len(BAD), keep=False)
    segment.close()
    assert [path.name for path in tmp_path.iterdir()] == [segment.path.name]
    assert segment.path.read_bytes() == frame(0)
    assert files.steps[0] == ("truncate", HEADER_BYTES)
    assert caplog.messages == [
        f"cut a torn tail of 8 bytes off segment {segment.path.name} at offset {HEADER_BYTES} (why)"
    ]
