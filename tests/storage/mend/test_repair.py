"""`log verify` tells what is damaged, `log repair` keeps all else and gives nothing lost again."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from lakemq.model.errors import LakemqError, LogDamaged, LogInUse, MessageNotFound
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.segment.frame import KIND_MESSAGES, encode_queue
from lakemq.storage.segment.rows import PayloadCodec, make_row, rows_to_batch
from lakemq.storage.state.topics import TOPICS_TOPIC
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, whole_frame


def _fill(harness: LogHarness, count: int = 20) -> list[tuple[int, int]]:
    """Store messages, each a frame of its own; returns where each frame begins and ends."""
    frames: list[tuple[int, int]] = []
    for number in range(count):
        begin = harness.active.size
        harness.append("a", number % 2, b"message %d" % number)
        frames.append((begin, harness.active.size))
    return frames


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def test_sound_log_is_sound_and_repair_leaves_it_alone(harness: LogHarness, tmp_path: Path) -> None:
    _fill(harness)
    harness.roll("a")
    harness.close()
    before = {path.name: path.read_bytes() for path in harness.segment_paths()}
    report = verify_log(tmp_path)
    assert report.sound
    assert len(report.segments) == 2
    repaired = repair_log(tmp_path)
    assert repaired.segments_rewritten == []
    assert repaired.messages_kept == report.messages
    assert {path.name: path.read_bytes() for path in harness.segment_paths()} == before


class _ReadOnly(Files):
    """Of a file system that is mounted to be read."""

    def open_append(self, path: Path) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    open_update = open_append


def test_log_is_verified_without_a_file_that_could_be_written(harness: LogHarness, tmp_path: Path) -> None:
    """One that retention removed meanwhile was made again by that, empty, and kept the next start from the log."""
    _fill(harness)
    harness.roll("a")
    stored = harness.read_log()
    harness.close()
    report = verify_log(tmp_path, _ReadOnly())
    assert report.sound
    assert report.segments[-1].next_position == stored[-1].position + 1


@pytest.mark.parametrize("victim", [0, 7, 19])
@pytest.mark.parametrize("part", ["header", "payload"])
def test_damaged_frame_is_named_and_only_its_message_is_lost(
    harness: LogHarness, tmp_path: Path, victim: int, part: str
) -> None:
    frames = _fill(harness)
    before = harness.read_log()
    harness.close()
    path = harness.segment_paths()[0]
    begin, end = frames[victim]
    _flip(path, begin + 20 if part == "header" else end - 10)
    with pytest.raises(LogDamaged, match=f"{path.name} is damaged at offset {begin}"):
        harness.open()
    report = verify_log(tmp_path)
    assert [(damage.segment, damage.offset, damage.size) for damage in report.damages] == [
        (path.name, begin, end - begin)
    ]
    repaired = repair_log(tmp_path)
    assert repaired.positions_lost == 1
    assert repaired.bytes_lost == end - begin
    assert verify_log(tmp_path).sound
    assert path.with_suffix(".log.damaged").exists()
    harness.open()
    lost = [message for message in before if message.body == b"message %d" % victim]
    assert harness.read_log() == [message for message in before if message not in lost]
    with pytest.raises(MessageNotFound):
        harness.reader.message(lost[0].position)
    stored = harness.append("a", victim % 2, b"new").placed[0]
    assert stored.position == before[-1].position + 1
    assert stored.queue_offset > max(message.queue_offset for message in before if message.queue_id == victim % 2)
    harness.reopen()
    assert repair_again_does_nothing(harness, tmp_path)


def repair_again_does_nothing(harness: LogHarness, tmp_path: Path) -> bool:
    """Whether a second repair finds nothing to do."""
    harness.close()
    return repair_log(tmp_path).segments_rewritten == []


def test_many_damages_at_random_lose_no_more_than_their_frames(make_log: MakeLog, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    harness = make_log()
    harness.put_topic("a")
    frames = _fill(harness, 60)
    before = harness.read_log()
    harness.close()
    path = harness.segment_paths()[0]
    victims = sorted(chance.sample(range(60), 9))
    for victim in victims:
        _flip(path, chance.randrange(*frames[victim]))
    repair_log(tmp_path)
    harness.open()
    kept = [message for message in before if message.body not in {b"message %d" % victim for victim in victims}]
    assert harness.read_log() == kept, f"seed {seed}"


def test_lost_state_frame_of_a_later_segment_is_made_from_the_one_before(harness: LogHarness, tmp_path: Path) -> None:
    harness.roll("a")
    _fill(harness)
    before = harness.read_log()
    harness.close()
    _flip(harness.segment_paths()[1], 30)
    with pytest.raises(LogDamaged):
        harness.open()
    assert repair_log(tmp_path).positions_lost == 0
    harness.open()
    assert harness.read_log() == before


def test_missing_segment_in_the_middle_becomes_a_hole(harness: LogHarness, tmp_path: Path) -> None:
    for _ in range(3):
        harness.roll("a")
    before = harness.read_log()
    bases = [segment.base_position for segment in harness.log.segments]
    harness.close()
    harness.segment_paths()[1].unlink()
    assert not verify_log(tmp_path).sound
    assert repair_log(tmp_path).positions_lost == bases[2] - bases[1]
    harness.open()
    assert harness.read_log() == [m for m in before if not bases[1] <= m.position < bases[2]]
    assert [m.body for m in harness.read_queue("a", 0)] == [
        m.body for m in before if m.topic == "a" and not bases[1] <= m.position < bases[2]
    ]


def test_frame_forged_inside_a_body_is_neither_found_nor_repaired_into_the_log(
    make_log: MakeLog, tmp_path: Path
) -> None:
    harness = make_log(compression="none")
    harness.crash()
    for path in harness.segment_paths():
        path.unlink()
    (harness.directory / "FLUSHED").unlink()
    harness.open()
    harness.put_topic("a")
    harness.flush()
    record = b'{"op":"delete","topic":"a","queues":4,"permission":"rw"}'
    mask, batch = rows_to_batch([make_row(body=record)])
    payload = PayloadCodec("none", 0).encode(batch, 1).to_pybytes()
    runs = [(1, 1, encode_queue(TOPICS_TOPIC, 0))]
    forged = whole_frame(harness.log.identity.now, KIND_MESSAGES, 1000, 0, 1, mask, runs, b"", payload)
    begin = harness.active.size
    harness.append("a", 0, b"".join(b"." * pad + forged for pad in range(8)) + b"." * 4096)
    path = harness.active.path
    harness.crash()
    path.write_bytes(path.read_bytes()[:-1000])
    repaired = repair_log(tmp_path)
    assert repaired.messages_kept == 1
    harness.open()
    assert harness.log.topics.find("a") is not None
    assert harness.active.size <= begin + 200


def test_torn_tail_is_cut_and_named_by_verify(harness: LogHarness, tmp_path: Path) -> None:
    frames = _fill(harness)
    harness.crash()
    path = harness.segment_paths()[0]
    path.write_bytes(path.read_bytes()[:-5])
    (damage,) = verify_log(tmp_path).damages
    assert damage.offset == frames[-1][0]
    repair_log(tmp_path)
    assert verify_log(tmp_path).sound
    harness.open()
    assert len(harness.read_log()) == 20


def test_flushed_messages_that_are_gone_from_the_end_are_missed_and_not_given_again(
    harness: LogHarness, tmp_path: Path
) -> None:
    frames = _fill(harness)
    last = harness.read_log()[-1]
    harness.close()
    path = harness.segment_paths()[0]
    path.write_bytes(path.read_bytes()[: frames[-1][0]])
    assert not verify_log(tmp_path).sound
    assert repair_log(tmp_path).positions_lost == 1
    harness.open()
    stored = harness.append("a", last.queue_id, b"new").placed[0]
    assert stored.position == last.position + 1
    assert stored.queue_offset == last.queue_offset + 1


def test_repair_needs_the_log_for_itself(harness: LogHarness, tmp_path: Path) -> None:
    harness.close()
    lock = DirectoryLock(Files(), tmp_path, "a test")
    with pytest.raises(LogInUse, match="a test"):
        repair_log(tmp_path)
    lock.release()


def test_folder_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LakemqError, match="there is no log"):
        verify_log(tmp_path)
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(LakemqError, match="no segments"):
        repair_log(tmp_path)


@pytest.mark.parametrize("rolls", [False, True])
def test_log_that_two_have_written_serves_again_and_gives_nothing_twice(tmp_path: Path, rolls: bool) -> None:
    """As on a file system whose locks say nothing. It was called repaired, and the next start refused it."""
    one = LogHarness(tmp_path).open()
    one.put_topic("a")
    other = LogHarness(tmp_path).open()
    placed = [one.append("a", 0, b"one").placed[0] for _ in range(3)]
    placed += [other.append("a", 0, b"other").placed[0] for _ in range(2)]
    if rolls:
        one.roll("a", 2)
    placed += [other.append("a", number % 2, b"other").placed[0] for number in range(6)]
    one.crash()
    other.crash()
    with pytest.raises(LogDamaged):
        one.open()
    repaired = repair_log(tmp_path)
    assert repaired.positions_lost >= 2
    assert all("two processes have written the log" in damage.reason for damage in repaired.damages)
    assert verify_log(tmp_path).sound
    assert repair_log(tmp_path).segments_rewritten == []
    one.open()
    read = one.read_queue("a", 0) + one.read_queue("a", 1)
    assert [message.body for message in read][:3] == [b"one"] * 3
    assert len({message.position for message in read}) == len(read)
    for queue_id in range(2):
        new = one.append("a", queue_id, b"new").placed[0]
        assert new.position > max(each.position for each in placed)
        assert new.queue_offset > max(each.queue_offset for each in placed if each.queue_id == queue_id)
    one.crash()


@pytest.mark.parametrize("is_last", [True, False])
def test_a_large_frame_of_the_second_writer_costs_none_of_the_first_ones(tmp_path: Path, is_last: bool) -> None:
    """It has positions that the first writer gives only later; they were made a hole of, and those frames left out."""
    one = LogHarness(tmp_path).open()
    one.put_topic("a")
    other = LogHarness(tmp_path).open()
    ones = [one.append("a", 0, b"one").placed[0] for _ in range(2)]
    others = other.append("a", 0, *[b"other"] * 7).placed
    if not is_last:
        ones += [one.append("a", 0, b"one").placed[0] for _ in range(9)]
    one.crash()
    other.crash()
    repaired = repair_log(tmp_path)
    assert repaired.positions_lost == 7
    assert verify_log(tmp_path).sound
    assert repair_log(tmp_path).segments_rewritten == []
    one.open()
    assert [(message.position, message.body) for message in one.read_queue("a", 0)] == [
        (each.position, b"one") for each in ones
    ]
    new = one.append("a", 0, b"new").placed[0]
    assert new.position > max(each.position for each in (*ones, *others))
    assert new.queue_offset > max(each.queue_offset for each in (*ones, *others))
    one.crash()


def test_whatever_two_have_written_is_repaired_and_nothing_is_given_twice(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for round_ in range(12):
        folder = tmp_path / str(round_)
        writers = [LogHarness(folder).open()]
        writers[0].put_topic("a")
        writers.append(LogHarness(folder).open())
        placed = [
            each
            for _ in range(chance.randrange(2, 25))
            for bodies in [[b"x"] * chance.choice([1, 1, 5])]
            for each in chance.choice(writers).append("a", chance.randrange(2), *bodies).placed
        ]
        for each in writers:
            each.crash()
        repair_log(folder)
        assert verify_log(folder).sound, f"seed {seed}"
        assert repair_log(folder).segments_rewritten == [], f"seed {seed}"
        one = writers[0].open()
        for queue_id in range(2):
            new = one.append("a", queue_id, b"new").placed[0]
            assert new.position > max(each.position for each in placed), f"seed {seed}"
            given = [each.queue_offset for each in placed if each.queue_id == queue_id]
            assert new.queue_offset > max(given, default=-1), f"seed {seed}"
        one.crash()
