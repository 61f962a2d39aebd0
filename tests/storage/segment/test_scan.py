"""Reading a segment frame by frame: what is sound, where it ends to be, and where it goes on."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from lakemq.model.errors import LogVersion
from lakemq.storage.disk.files import Files
from lakemq.storage.segment import scan as scanning
from lakemq.storage.segment.frame import HEADER_BYTES, KIND_STATE, LogEpoch
from lakemq.storage.segment.mask import MAGIC
from lakemq.storage.segment.scan import Broken, find_frame, read_log_epoch, scan
from lakemq.storage.segment.segment import Segment
from tests.storage.harness import whole_frame

LOG_ID, OTHER_ID = b"0123456789abcdef", b"another log's id"
LOG = LogEpoch(LOG_ID, 3)
CHUNK = 4 * HEADER_BYTES


class CountingFiles(Files):
    """Real files, and what was read of them: offset and size."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self.reads.append((offset, size))
        return super().read(descriptor, size, offset)


class Made(NamedTuple):
    """A segment of these bytes."""

    segment: Segment
    reads: list[tuple[int, int]]


def frame(position: int, payload: bytes = b"", log: LogEpoch = LOG) -> bytes:
    """A frame of a header and that payload."""
    return whole_frame(log, KIND_STATE, position, 0, 0, 0, [], b"", payload)


def made(folder: Path, data: bytes) -> Made:
    path, files = folder / "00000000000000000000.log", CountingFiles()
    path.write_bytes(data)
    return Made(Segment(files, path, 0), files.reads)


def places(segment: Segment, start: int, end: int) -> list[tuple[int, int, bytes]]:
    """Offset, position and payload of each frame."""
    return [(each.offset, each.meta.first_position, bytes(each.payload)) for each in scan(segment, start, end)]


PAYLOADS = [b"", b"payload!", b"long one" * 50, b"payload!" * 3, b"large..." * 40]
FRAMES = [frame(number, payload) for number, payload in enumerate(PAYLOADS)]
WHOLE = b"".join(FRAMES)
OFFSETS = [sum(map(len, FRAMES[:number])) for number in range(len(FRAMES))]
PLACES = [(offset, number, payload) for number, (offset, payload) in enumerate(zip(OFFSETS, PAYLOADS, strict=True))]


@pytest.mark.parametrize("chunk", [CHUNK, CHUNK + 8, scanning.CHUNK_BYTES])
def test_frames_are_found_from_any_of_them_on_whatever_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", chunk)
    segment = made(tmp_path, WHOLE + b"what is behind the end").segment
    for number in range(len(FRAMES)):
        assert places(segment, OFFSETS[number], len(WHOLE)) == PLACES[number:]
        assert places(segment, 0, OFFSETS[number]) == PLACES[:number]
    assert places(segment, len(WHOLE), len(WHOLE)) == []


def test_a_segment_is_read_in_large_parts_each_byte_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", CHUNK)
    segment, reads = made(tmp_path, frame(0) * 8)
    assert len(list(scan(segment, 0, 8 * HEADER_BYTES))) == 8
    of_first = [(0, HEADER_BYTES)] * 2
    assert reads == [*of_first, (0, CHUNK), (CHUNK, CHUNK)]
    reads.clear()
    size = 2 * HEADER_BYTES + CHUNK
    large = made(tmp_path, frame(0) + frame(1, bytes(CHUNK)))
    assert len(list(scan(large.segment, 0, size))) == 2
    assert large.reads[2:] == [(0, CHUNK), (HEADER_BYTES, size - HEADER_BYTES)]


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_a_bad_frame_is_named_with_its_offset_and_what_is_wrong(tmp_path: Path, number: int) -> None:
    data = bytearray(WHOLE)
    data[OFFSETS[number] + 20] ^= 1
    segment = made(tmp_path, bytes(data)).segment
    found: list[int] = []
    with pytest.raises(Broken) as caught:
        found.extend(each.offset for each in scan(segment, 0, len(data)))
    assert found == OFFSETS[:number]
    broken = caught.value
    assert broken.offset == OFFSETS[number]
    assert str(broken) == f"offset {broken.offset}: {broken.reason}"
    assert broken.reason == "the header's checksum does not match"
    assert broken.__suppress_context__


def test_a_frame_that_the_end_cuts_is_bad(tmp_path: Path) -> None:
    segment = made(tmp_path, WHOLE).segment
    for end, reason in (
        (len(WHOLE) - 8, "the payload is cut off"),
        (OFFSETS[-1] + HEADER_BYTES - 1, "the header is cut off"),
        (OFFSETS[-1] + 1, "the header is cut off"),
    ):
        with pytest.raises(Broken, match=f"offset {OFFSETS[-1]}: {reason}"):
            list(scan(segment, 0, end))


def newer_version() -> bytes:
    """A frame of a version to come, its checksum right."""
    from crc32c import crc32c

    data = bytearray(frame(0))
    data[12] += 1
    data[8:12] = struct.pack("<I", crc32c(bytes(data[12:])))
    return bytes(data)


def test_a_frame_of_a_newer_version_is_told_from_damage(tmp_path: Path) -> None:
    segment = made(tmp_path, frame(0) + newer_version()).segment
    with pytest.raises(LogVersion, match=f"newer lakemq, from offset {HEADER_BYTES} on: the frame has version 3"):
        list(scan(segment, 0, 2 * HEADER_BYTES))


def test_frames_of_another_log_or_an_epoch_that_ended_are_bad(tmp_path: Path) -> None:
    later, earlier, other = LogEpoch(LOG_ID, 4), LogEpoch(LOG_ID, 2), LogEpoch(OTHER_ID, 3)
    first = frame(0)
    segment = made(tmp_path, first + frame(1, log=later) + frame(2, log=later)).segment
    assert [each.meta.log.epoch for each in scan(segment, 0, 3 * HEADER_BYTES)] == [3, 4, 4]
    ended = "the frame is of epoch {}, which ended before"
    another = f"the frame is of log {UUID(bytes=OTHER_ID)}, not of {UUID(bytes=LOG_ID)}"
    for frames, reason in (
        ([frame(1, log=earlier)], ended.format(2)),
        ([frame(1, log=later), frame(2)], ended.format(3)),
        ([frame(1, log=other)], another),
    ):
        data = first + b"".join(frames)
        with pytest.raises(Broken) as caught:
            list(scan(made(tmp_path, data).segment, 0, len(data)))
        assert caught.value.reason == reason
        assert caught.value.offset == len(data) - HEADER_BYTES
        # What the segment's first frame says holds from wherever it is read.
        with pytest.raises(Broken, match="the frame is of"):
            list(scan(made(tmp_path, data).segment, HEADER_BYTES, len(data)))


def test_whose_log_a_segment_is_of_stands_in_its_first_frame(tmp_path: Path) -> None:
    data = whole_frame(LOG, KIND_STATE, 0, 0, 0, 0, [], b"some notes", b"payload!")
    segment, reads = made(tmp_path, data)
    meta_bytes = len(data) - 8
    assert read_log_epoch(segment, len(data)) == LOG
    assert reads == [(0, HEADER_BYTES), (0, meta_bytes)]
    assert read_log_epoch(segment, meta_bytes) == LOG, "the payload isn't looked at"
    for size in (0, 8, HEADER_BYTES, meta_bytes - 1):
        reads.clear()
        assert read_log_epoch(segment, size) is None
        assert all(each <= size for _, each in reads)
    # What another wrote behind the size that is told is not the segment's.
    assert read_log_epoch(made(tmp_path, bytes(HEADER_BYTES)).segment, HEADER_BYTES) is None


@pytest.mark.parametrize("chunk", [CHUNK, 2 * CHUNK + 8, scanning.CHUNK_BYTES])
@pytest.mark.parametrize("junk", [b"", b"x", b"x" * 8, MAGIC, b"...." + MAGIC + b"....", b"x" * 1_000, MAGIC * 130])
def test_the_first_sound_frame_is_found_behind_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, junk: bytes
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", chunk)
    junk += bytes(-len(junk) % 8)
    data = junk + WHOLE + junk
    segment, end = made(tmp_path, data).segment, len(data)
    at = [len(junk) + offset for offset in OFFSETS]
    assert find_frame(segment, 0, end) == at[0]
    for number, offset in enumerate(at):
        assert find_frame(segment, offset, end) == offset
        following = at[number + 1] if number + 1 < len(at) else None
        for start in (offset + 1, offset + 7, offset + 8):
            assert find_frame(segment, start, end) == following
        assert find_frame(segment, 0, end, number) == offset
    assert find_frame(segment, 0, end, len(at)) is None
    assert find_frame(segment, end, end) is None


def test_a_frame_whose_end_is_not_there_is_none(tmp_path: Path) -> None:
    segment = made(tmp_path, WHOLE).segment
    for cut in (1, 8, len(FRAMES[-1]) - 1, len(FRAMES[-1])):
        assert find_frame(segment, OFFSETS[-1], len(WHOLE) - cut) is None


def test_beginnings_without_a_frame_are_read_past_in_large_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", CHUNK)
    segment, reads = made(tmp_path, bytes(4 * CHUNK) + frame(7))
    assert find_frame(segment, 0, 4 * CHUNK + HEADER_BYTES) == 4 * CHUNK
    assert len(reads) <= 8


def test_a_frame_of_another_log_is_none_that_is_looked_for(tmp_path: Path) -> None:
    data = frame(0) + frame(1, log=LogEpoch(OTHER_ID, 3)) + frame(2)
    assert find_frame(made(tmp_path, data).segment, 8, len(data)) == 2 * HEADER_BYTES
