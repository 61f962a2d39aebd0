"""What a crash leaves is mended; what a crash can't leave is refused, and named."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from lakemq.model.errors import LogDamaged, LogVersion
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.positions import RESERVED
from lakemq.storage.log.recovery import recover
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.segment import scan as scan_module
from lakemq.storage.segment.frame import KIND_MESSAGES, KIND_STATE, LogEpoch, encode_queue
from lakemq.storage.segment.mask import MAGIC
from lakemq.storage.segment.rows import make_row, rows_to_batch
from lakemq.storage.segment.scan import Broken, find_frame, scan
from lakemq.storage.segment.segment import Segment, segment_path
from tests.open_files import open_files
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, Message, incompressible, whole_frame


def _write_some(harness: LogHarness, requests: int = 12) -> list[int]:
    """Store some frames; returns the segment's size after each of them."""
    sizes: list[int] = []
    for number in range(requests):
        harness.clock.time_ms += number
        harness.append("a", number % 3, *[b"%d-%d" % (number, row) for row in range(number % 4 + 1)])
        sizes.append(harness.active.size)
    return sizes


def _without_hints(harness: LogHarness) -> None:
    """Leave only the segments, as if nothing had been flushed yet."""
    for path in harness.directory.iterdir():
        if path.suffix != ".log" and path.name != RESERVED:
            path.unlink()


def _flip(path: Path, offset: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def _bounds(harness: LogHarness) -> list[tuple[object, int, int, int]]:
    return [(q.key, q.floor, q.min_offset, q.next_offset) for q in harness.log.topics.all_queues()]


def _dense(messages: list[Message]) -> bool:
    offsets: dict[tuple[str, int], int] = {}
    for message, position in zip(messages, range(len(messages)), strict=True):
        key = (message.topic, message.queue_id)
        if message.position != position or message.queue_offset != offsets.get(key, 0):
            return False
        offsets[key] = message.queue_offset + 1
    return True


# What a crash leaves ---------------------------------------------------------------------------


def test_log_is_the_same_after_a_clean_stop(harness: LogHarness) -> None:
    _write_some(harness)
    before, bounds = harness.read_log(), _bounds(harness)
    harness.close()
    harness.open()
    assert harness.read_log() == before
    assert _bounds(harness) == bounds
    assert harness.log.torn_bytes == 0
    assert harness.log.flushed_position == harness.log.next_position == len(before)


def test_log_is_the_same_after_a_kill(harness: LogHarness) -> None:
    _write_some(harness)
    before, bounds = harness.read_log(), _bounds(harness)
    harness.reopen()
    assert harness.read_log() == before
    assert _bounds(harness) == bounds
    assert harness.log.torn_bytes == 0


def test_what_a_killed_process_wrote_is_flushed_before_it_is_called_flushed(harness: LogHarness) -> None:
    harness.append("a", 0, b"written, not flushed")
    harness.crash()
    harness.files.fail_sync = True
    with pytest.raises(OSError, match="Input/output error"):
        harness.open()
    harness.files.fail_sync = False
    harness.open()
    assert harness.log.flushed_position == harness.log.next_position


@pytest.mark.parametrize("filler", [b"", b"\0", b"\xa5"], ids=["cut", "zeros", "garbage"])
def test_torn_tail_is_cut_at_any_byte(harness: LogHarness, caplog: pytest.LogCaptureFixture, filler: bytes) -> None:
    sizes = _write_some(harness)
    whole = harness.read_log()
    harness.crash()
    _without_hints(harness)
    path = harness.segment_paths()[0]
    content = path.read_bytes()
    chosen = random.Random(7).sample(range(sizes[0], sizes[-1]), 25)
    in_header = [sizes[2] + kept for kept in (4, 8, 12, 13, 63)]
    for size in [*chosen, *in_header, *sizes[1:4], sizes[-1] - 1]:
        _without_hints(harness)
        left = content[:size] + filler * 1000 if filler or size not in sizes else content[:size]
        # What is zeros at a frame's end is there again where zeros follow.
        torn = size - max(end for end in sizes if left.startswith(content[:end]))
        path.write_bytes(left)
        caplog.clear()
        harness.open()
        kept = harness.read_log()
        expected_torn = torn + 1000 * len(filler)
        assert kept == whole[: len(kept)]
        assert harness.active.size == path.stat().st_size
        assert path.read_bytes()[: size - torn] == content[: size - torn]
        assert harness.log.torn_bytes == expected_torn
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        if expected_torn:
            assert any(f"a torn tail of {expected_torn} bytes" in line and path.name in line for line in lines)
        else:
            assert not any("torn" in line for line in lines)
        stored = harness.append("a", 1, b"goes on")
        assert stored.placed[0].position >= len(whole)
        harness.crash()


def test_cut_tail_is_cut_once(harness: LogHarness) -> None:
    _write_some(harness)
    harness.crash()
    _without_hints(harness)
    with harness.segment_paths()[0].open("ab") as file:
        file.write(b"\0" * 5000)
    harness.open()
    assert harness.log.torn_bytes == 5000
    harness.reopen()
    assert harness.log.torn_bytes == 0


def test_torn_tail_behind_a_snapshot_is_cut(harness: LogHarness) -> None:
    _write_some(harness)
    harness.close()
    harness.open()
    _write_some(harness, 3)
    before = harness.read_log()
    harness.crash()
    with harness.segment_paths()[0].open("r+b") as file:
        file.truncate(harness.active.size - 1)
    harness.open()
    assert harness.log.torn_bytes > 0
    kept = harness.read_log()
    assert kept == before[: len(kept)]
    assert len(before) - len(kept) == 3


@pytest.mark.parametrize("size", [0, 1, 63, 100])
def test_segment_that_was_never_begun_is_removed(harness: LogHarness, size: int) -> None:
    harness.roll("a")
    harness.roll("a")
    before = harness.read_log()
    harness.settle()
    harness.crash()
    head = harness.segment_paths()[-1].read_bytes()[:size]
    unborn = segment_path(harness.directory, len(before))
    unborn.write_bytes(head)
    harness.open()
    assert not unborn.exists()
    assert harness.log.torn_bytes == size
    assert harness.read_log() == before
    assert _dense(before)
    harness.roll("a")
    assert _dense(harness.read_log())


def test_directory_of_an_unborn_log_begins_a_log(make_log: MakeLog, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    segment_path(tmp_path / "commitlog", 0).write_bytes(b"LMQF")
    harness = make_log()
    harness.put_topic("a")
    assert harness.append("a", 0, b"first").placed[0].position == 1


def test_torn_tail_after_a_roll_is_cut(harness: LogHarness) -> None:
    harness.roll("a")
    before = harness.read_log()
    harness.append("a", 0, b"torn")
    harness.settle()
    harness.crash()
    with harness.segment_paths()[-1].open("r+b") as file:
        file.truncate(harness.active.size - 8)
    harness.open()
    kept = harness.read_log()
    assert len(harness.log.segments) == 2
    assert kept == before[: len(kept)]
    assert harness.append("a", 0, b"again").placed[0].position > len(before)


def test_store_time_never_goes_back_though_the_clock_does(harness: LogHarness) -> None:
    harness.append("a", 0, b"early")
    harness.clock.time_ms -= 5_000
    harness.append("a", 0, b"same time")
    harness.reopen()
    harness.clock.time_ms -= 5_000
    harness.append("a", 0, b"still the same time")
    harness.clock.time_ms += 20_000
    harness.append("a", 0, b"later")
    times = [message.store_time_ms for message in harness.read_queue("a", 0)]
    assert times[0] == times[1] == times[2] == times[3] - 10_000


def test_topics_and_their_changes_survive(harness: LogHarness) -> None:
    harness.put_topic("b", 2, "r")
    harness.put_topic("b", 7, "w")
    harness.close()
    harness.open()
    harness.put_topic("c", 1)
    harness.reopen()
    assert {(t.name, len(t.queues), t.permission) for t in harness.log.topics} == {
        ("RMQ_SYS_TOPICS", 1, "r"), ("a", 4, "rw"), ("b", 7, "w"), ("c", 1, "rw"),
    }  # fmt: skip


@pytest.mark.parametrize("way", ["kill", "stop", "roll"])
def test_deleted_topic_stays_deleted_and_goes_on_with_its_offsets(harness: LogHarness, way: str) -> None:
    harness.append("a", 0, b"1", b"2", b"3")
    harness.append("a", 1, b"4")
    harness.delete_topic("a")
    harness.put_topic("other")
    if way == "roll":
        harness.roll("other")
    (harness.close if way == "stop" else harness.crash)()
    harness.open()
    assert harness.log.topics.find("a") is None
    harness.put_topic("a", 4)
    assert [(q.min_offset, q.next_offset) for q in harness.log.topics.get("a").queues] == [
        (3, 3),
        (1, 1),
        (0, 0),
        (0, 0),
    ]
    assert harness.append("a", 0, b"5").placed[0].queue_offset == 3
    harness.reopen()
    assert [(q.min_offset, q.next_offset) for q in harness.log.topics.get("a").queues] == [
        (3, 4),
        (1, 1),
        (0, 0),
        (0, 0),
    ]


def test_deletion_hides_what_came_in_its_own_frame_after_a_restart_too(harness: LogHarness) -> None:
    """Replay used to hide less of a deleted topic than was hidden before the restart."""
    body = json.dumps({"op": "delete", "topic": "a", "queues": 4, "permission": "rw"}).encode()

    async def store_both() -> None:
        deleting = harness.log.append(RowsAppend([make_row(body=body)], [harness.queue("RMQ_SYS_TOPICS")]))
        await asyncio.gather(deleting, harness.log.append(RowsAppend([make_row(body=b"")], [harness.queue("a")])))

    harness.run(store_both())
    harness.reopen()
    harness.put_topic("a")
    assert harness.queue("a").min_offset == harness.queue("a").next_offset == 1


def test_snapshot_right_after_a_topics_record_holds_the_change(make_log: MakeLog) -> None:
    """The record stood under the snapshot and was applied after it: a restart forgot the topic."""
    harness = make_log(flush_bytes=1024, snapshot_bytes=1024)
    harness.put_topic("a")
    body = b'{"op": "put", "topic": "b", "queues": 3, "permission": "r"}'

    async def store_both() -> None:
        change = harness.log.append(RowsAppend([make_row(body=body)], [harness.queue("RMQ_SYS_TOPICS")]))
        await asyncio.gather(change, harness.log.append(RowsAppend([make_row(body=b"x" * 5000)], [harness.queue("a")])))

    harness.run(store_both())
    harness.reopen()
    made = harness.log.topics.get("b")
    assert (len(made.queues), made.permission) == (3, "r")


# Index files -----------------------------------------------------------------------------------


def _spoil_missing(path: Path) -> None:
    path.unlink()


def _spoil_empty(path: Path) -> None:
    path.write_bytes(b"")


def _spoil_head(path: Path) -> None:
    _flip(path, 30)


def _spoil_fields(path: Path) -> None:
    _flip(path, 100)


def _spoil_arrays(path: Path) -> None:
    _flip(path, path.stat().st_size - 1)


def _spoil_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("spoil", [_spoil_missing, _spoil_empty, _spoil_head, _spoil_fields, _spoil_arrays, _spoil_cut])
@pytest.mark.parametrize("number", [0, 1, 2], ids=["first", "middle", "last"])
def test_index_file_that_cannot_be_used_is_made_again(make_log: MakeLog, spoil: object, number: int) -> None:
    """A sealed segment's index with sound extent and damaged arrays used to stop start or reads."""
    harness = make_log()
    harness.put_topic("a")
    for _ in range(2):
        harness.append("a", 1, b"beside")
        harness.roll("a")
    harness.append("a", 1, b"last")
    before, bounds = harness.read_log(), _bounds(harness)
    harness.close()
    assert callable(spoil)
    spoil(sorted(harness.directory.glob("*.idx"))[number])
    harness.open()
    assert harness.read_log() == before
    assert _bounds(harness) == bounds
    assert [m.body for m in harness.read_queue("a", 1)] == [b"beside", b"beside", b"last"]
    harness.close()
    harness.open()
    assert harness.read_log() == before


def test_stale_index_of_a_sealed_segment_is_made_again(harness: LogHarness) -> None:
    harness.append("a", 1, b"1")
    harness.close()
    index_path = next(harness.directory.glob("*.idx"))
    stale = index_path.read_bytes()
    harness.open()
    harness.roll("a")
    before = harness.read_log()
    harness.close()
    index_path.write_bytes(stale)
    harness.open()
    assert harness.read_log() == before
    assert index_path.read_bytes() != stale


@pytest.mark.parametrize("number", [1, 2], ids=["sealed", "last"])
def test_index_of_another_segment_is_not_used(harness: LogHarness, number: int) -> None:
    harness.roll("a")
    harness.roll("a")
    before = harness.read_log()
    harness.close()
    indexes = sorted(harness.directory.glob("*.idx"))
    shutil.copy(indexes[0], indexes[number])
    harness.open()
    assert harness.read_log() == before


def test_index_that_is_swapped_while_serving_is_not_used(harness: LogHarness) -> None:
    harness.roll("a")
    harness.roll("a")
    before = harness.read_log()
    harness.reopen()
    indexes = sorted(harness.directory.glob("*.idx"))
    shutil.copy(indexes[0], indexes[1])
    assert harness.read_log() == before


def test_start_goes_on_when_the_index_cannot_be_written_again(harness: LogHarness) -> None:
    harness.roll("a")
    before = harness.read_log()
    harness.close()
    sorted(harness.directory.glob("*.idx"))[0].unlink()
    harness.files.fail_replace = True
    harness.open()
    assert harness.read_log() == before


# Damage ----------------------------------------------------------------------------------------


def _refused(harness: LogHarness, segment: Path, offset: int | None = None) -> str:
    with pytest.raises(LogDamaged) as caught:
        harness.open()
    assert segment.name in caught.value.detail
    if offset is not None:
        assert f"at offset {offset}:" in caught.value.detail
    return caught.value.detail


def test_flipped_bit_in_what_was_flushed_is_refused_as_a_later_frame_tells(harness: LogHarness) -> None:
    sizes = _write_some(harness)
    harness.flush()
    harness.append("a", 0, b"later")
    harness.crash()
    _without_hints(harness)
    (path,) = harness.segment_paths()
    content = path.read_bytes()
    chance = random.Random(11)
    for _ in range(20):
        at = chance.randrange(sizes[0], sizes[-1])
        _flip(path, at, chance.randrange(8))
        _refused(harness, path, max(end for end in sizes if end <= at))
        assert path.stat().st_size == len(content)
        path.write_bytes(content)
    assert open_files(path) == []  # who only asks what is wrong with a log goes on living
    harness.open()


@pytest.mark.parametrize("how", ["stop", "flush"])
def test_flipped_bit_in_the_last_frame_is_refused_when_it_was_flushed(harness: LogHarness, how: str) -> None:
    sizes = _write_some(harness)
    if how == "flush":
        harness.flush()
        harness.crash()
    else:
        harness.close()
    (path,) = harness.segment_paths()
    for bit in range(3):
        _flip(path, sizes[-1] - 20, bit)
        _refused(harness, path, sizes[-2])
        _flip(path, sizes[-1] - 20, bit)
    harness.open()


def test_flipped_bit_under_a_snapshot_is_found_by_the_first_read_when_start_may_not_verify(make_log: MakeLog) -> None:
    harness = make_log(verify_ms=0)
    harness.put_topic("a")
    sizes = _write_some(harness)
    harness.close()
    (path,) = harness.segment_paths()
    _flip(path, sizes[4] + 70)
    harness.open()
    with pytest.raises(LogDamaged, match=f"{path.name} is damaged at offset {sizes[4]}: "):
        harness.read_log()
    harness.crash()
    harness.settings = harness.settings.model_copy(update={"verify_ms": 10_000})
    _refused(harness, path, sizes[4])


@pytest.mark.parametrize("index", ["whole", "missing"])
def test_flipped_bit_in_a_sealed_segment_is_refused(harness: LogHarness, index: str) -> None:
    sizes = _write_some(harness)
    harness.roll("a")
    harness.close()
    path = harness.segment_paths()[0]
    if index == "missing":
        path.with_suffix(".idx").unlink()
    _flip(path, sizes[3] + 9)
    _refused(harness, path, sizes[3])


def test_state_frame_that_is_damaged_is_refused(harness: LogHarness) -> None:
    _write_some(harness)
    harness.crash()
    _without_hints(harness)
    (path,) = harness.segment_paths()
    _flip(path, 70)
    _refused(harness, path, 0)


@pytest.mark.parametrize("hint", ["snapshot", "mark"])
def test_damaged_state_frame_of_a_segment_with_nothing_else_is_refused_when_it_was_flushed(
    harness: LogHarness, hint: str
) -> None:
    harness.close()
    (path,) = harness.segment_paths()
    if hint == "snapshot":
        (harness.directory / "FLUSHED").unlink()
    else:
        path.with_suffix(".idx").unlink()
    path.write_bytes(path.read_bytes()[:40])
    _refused(harness, path)
    assert path.stat().st_size == 40


@pytest.mark.parametrize("hint", ["snapshot", "mark"])
def test_log_shorter_than_what_was_flushed_is_refused(harness: LogHarness, hint: str) -> None:
    sizes = _write_some(harness)
    harness.close()
    (path,) = harness.segment_paths()
    if hint == "snapshot":
        (harness.directory / "FLUSHED").unlink()
    else:
        path.with_suffix(".idx").unlink()
    with path.open("r+b") as file:
        file.truncate(sizes[-2])
    detail = _refused(harness, path, sizes[-2])
    assert f"{sizes[-1]} bytes were flushed" in detail


def test_sealed_segment_shorter_than_its_index_is_refused(harness: LogHarness) -> None:
    sizes = _write_some(harness)
    harness.roll("a")
    harness.close()
    path = harness.segment_paths()[0]
    with path.open("r+b") as file:
        file.truncate(sizes[-1])
    assert "bytes were flushed" in _refused(harness, path, sizes[-1])


def test_sealed_segment_with_a_torn_tail_is_refused(harness: LogHarness) -> None:
    _write_some(harness)
    harness.roll("a")
    harness.close()
    path = harness.segment_paths()[0]
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0" * 64)
    _refused(harness, path, size)


def test_missing_middle_segment_is_refused(harness: LogHarness) -> None:
    harness.roll("a")
    harness.roll("a")
    harness.close()
    first, middle, last = harness.segment_paths()
    middle.unlink()
    detail = _refused(harness, first)
    assert f"begins with {int(last.stem)}" in detail


@pytest.mark.parametrize("all_of_them", [True, False])
def test_missing_last_segment_is_refused(harness: LogHarness, all_of_them: bool) -> None:
    """Its positions used to be given again."""
    harness.roll("a")
    harness.append("a", 0, b"flushed")
    harness.close()
    first, last = harness.segment_paths()
    last.unlink()
    if all_of_them:
        first.unlink()
    assert "is missing" in _refused(harness, last)


def test_frame_in_the_wrong_place_is_refused(harness: LogHarness) -> None:
    sizes = _write_some(harness)
    harness.crash()
    _without_hints(harness)
    (path,) = harness.segment_paths()
    content = path.read_bytes()
    path.write_bytes(content[: sizes[5]] + content[sizes[4] : sizes[5]])
    assert "is due" in _refused(harness, path, sizes[5])


def _record_frame(log: LogEpoch, position: int, body: bytes) -> bytes:
    mask, batch = rows_to_batch([make_row(body=body)])
    payload = bytes(batch.serialize())
    runs = [(position, 1, encode_queue("RMQ_SYS_TOPICS", 0))]
    return whole_frame(log, KIND_MESSAGES, position, 0, 1, mask, runs, b"", payload)


def _state_frame(log: LogEpoch, position: int, payload: bytes) -> bytes:
    payload += b" " * (-len(payload) % 8)
    return whole_frame(log, KIND_STATE, position, 0, 0, 0, [], b"", payload)


def _no_arrow(log: LogEpoch, position: int) -> bytes:
    runs = [(1, 1, encode_queue("RMQ_SYS_TOPICS", 0))]
    return whole_frame(log, KIND_MESSAGES, position, 0, 1, 1, runs, b"", b"no arrow")


@pytest.mark.parametrize(
    "frame",
    [
        lambda log: _record_frame(log, 1, b"no JSON"),
        lambda log: _record_frame(log, 1, b'{"op": "delete"}'),
        lambda log: _record_frame(log, 1, b"[]"),
        lambda log: _record_frame(log, 1, b'{"op": "put", "topic": "t", "queues": "many", "permission": "rw"}'),
        lambda log: _state_frame(log, 1, b"{}"),
        lambda log: _state_frame(
            log,
            1,
            b'{"topics": [{"topic": "t", "permission": "rw", "deleted": false, "next_offsets": [1], "floors": []}]}',
        ),
        lambda log: _no_arrow(log, 1),
    ],
)
def test_sound_frame_that_makes_no_sense_is_refused(harness: LogHarness, frame: Callable[[LogEpoch], bytes]) -> None:
    harness.crash()
    _without_hints(harness)
    (path,) = harness.segment_paths()
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(frame(harness.log.identity.now))
    assert "sound" in _refused(harness, path, size)


def test_log_of_the_first_version_is_refused_and_left_as_it_is(harness: LogHarness, tmp_path: Path) -> None:
    harness.close()
    (path,) = harness.segment_paths()
    header = struct.pack("<IBBHQQIIIIIIQ", 0, 1, KIND_STATE, 0, 0, 0, 0, 0, 0, 64, 0, 0, 72)
    content = b"LMQF" + crc32c(header).to_bytes(4, "little") + header + b"{}      "
    path.write_bytes(content)
    _without_hints(harness)
    for use in (harness.open, lambda: repair_log(tmp_path), lambda: verify_log(tmp_path)):
        with pytest.raises(LogVersion, match=r"version 1 .* reads version 2: .* moving the folder away"):
            use()
    assert path.read_bytes() == content


def test_files_that_are_no_segments_are_left_alone(harness: LogHarness) -> None:
    harness.crash()
    note = harness.directory / "note.log"
    note.write_text("not a segment")
    harness.open()
    assert note.read_text() == "not a segment"


# The scan --------------------------------------------------------------------------------------


@pytest.fixture
def segment(harness: LogHarness) -> Iterator[Segment]:
    """A segment of several frames, apart from its log."""
    _write_some(harness)
    harness.crash()
    (path,) = harness.segment_paths()
    made = Segment(Files(), path, 0)
    yield made
    made.close()


@pytest.mark.parametrize("chunk_bytes", [8, 64, 1000, 4 * 1024 * 1024])
def test_scan_gives_every_frame_whatever_it_reads_at_once(
    segment: Segment, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(scan_module, "CHUNK_BYTES", chunk_bytes)
    data = segment.path.read_bytes()
    frames = [
        (offset, meta.frame_bytes, crc32c(payload), meta.payload_crc)
        for offset, meta, payload in scan(segment, 0, len(data))
    ]
    assert [offset for offset, *_ in frames][1:] == [offset + size for offset, size, *_ in frames][:-1]
    assert all(found == expected for *_, found, expected in frames)
    assert frames[-1][0] + frames[-1][1] == len(data)
    last = frames[-1][0]
    with pytest.raises(Broken, match=f"offset {last}: "):
        list(scan(segment, 0, len(data) - 1))
    assert list(scan(segment, len(data), len(data))) == []


@pytest.mark.parametrize("chunk_bytes", [8, 64, 1000, 4 * 1024 * 1024])
def test_next_frame_is_found_behind_what_only_looks_like_one(
    segment: Segment, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(scan_module, "CHUNK_BYTES", chunk_bytes)
    data = segment.path.read_bytes()
    lures = b"\0" * 5 + MAGIC + b"\0" * 23 + MAGIC * 8 + data[:60] + b"\0" * 4 + MAGIC + b"\xff" * 12
    lures += b"\0" * (-len(lures) % 8)
    segment.path.write_bytes(lures + data)
    size = len(lures) + len(data)
    assert find_frame(segment, 0, size) == find_frame(segment, len(lures) - 3, size) == len(lures)
    assert find_frame(segment, 0, size - len(data)) is None
    assert find_frame(segment, size, size) is None
    assert (
        find_frame(segment, len(lures) + 1, size) == len(lures) + next(scan(segment, len(lures), size)).meta.frame_bytes
    )


@pytest.mark.parametrize("size", range(0, 40, 3))
def test_no_frame_is_found_in_a_short_rest(segment: Segment, size: int) -> None:
    segment.path.write_bytes(b"\0" * size)
    assert find_frame(segment, 0, size) is None


def test_verification_stops_at_its_budget_and_names_damage_within_it(harness: LogHarness) -> None:
    for number in range(2):
        harness.append("a", 0, incompressible(number, 1000))
        harness.roll("a")
    harness.close()
    first, second, last = harness.segment_paths()
    _flip(first, 3000)
    files = Files()
    recovered = recover(files, harness.directory, 0)
    assert [found.path for found in recovered.segments] == [first, second, last]
    recovered.segments[-1].close()
    with pytest.raises(LogDamaged, match=first.name):
        recover(files, harness.directory, 60_000)


def test_log_can_tell_its_segments_file_names() -> None:
    assert re.fullmatch(r"0{18}42\.log", segment_path(Path(), 42).name)
