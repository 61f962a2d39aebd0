"""A start says what it found and names where; and what mends a damaged segment is told all that is known around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.model.errors import LogDamaged
from lakemq.storage.log.damaged_segment import DamagedSegment, Mend, refuse_to_mend
from lakemq.storage.log.recovery import REPAIRING, Recovered, interrupted, recover, sealed_index
from lakemq.testing import FaultyFiles
from tests.storage.harness import LogHarness

Sound = dict[str, bytes]


@pytest.fixture
def sound(harness: LogHarness) -> Sound:
    """The files of a closed log of four segments."""
    for number in range(3):
        harness.append("a", number, b"message %d" % number, b"more")
        harness.log.begin_segment()
        while len(harness.log.segments) < number + 2 or any(segment.sealing for segment in harness.log.segments):
            harness.settle()
    harness.append("a", 0, b"the last one")
    harness.close()
    return {path.name: path.read_bytes() for path in harness.segment_paths()}


def _damage(path: Path, at: int = -10) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _recover(harness: LogHarness, mend: Mend = refuse_to_mend) -> Recovered:
    found = recover(FaultyFiles(), harness.directory, 60_000, True, mend)
    for segment in found.segments:
        segment.close()
    return found


@pytest.mark.parametrize(
    ("victims", "is_missing"),
    [*(([*each], False) for each in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2))), ([1], True), ([2], True)],
)
def test_damaged_segments_are_mended_the_oldest_first_with_what_is_known_around_them(
    harness: LogHarness, sound: Sound, victims: list[int], is_missing: bool
) -> None:
    paths = harness.segment_paths()
    for number in victims:
        paths[number].with_suffix(".idx").unlink(missing_ok=True)
        if is_missing:
            paths[number].unlink()
        else:
            _damage(paths[number])
    told: list[DamagedSegment] = []

    def mend(damaged: DamagedSegment) -> None:
        told.append(damaged)
        damaged.segment.path.write_bytes(sound[damaged.segment.path.name])

    found = _recover(harness, mend)
    bases = [int(path.stem) for path in paths]
    assert [segment.base_position for segment in found.segments] == bases
    assert [segment.end_position for segment in found.segments[:-1]] == bases[1:]
    assert [damaged.segment.base_position for damaged in told] == [bases[number] for number in victims]
    for damaged in told:
        number = bases.index(damaged.segment.base_position)
        assert damaged.following is found.segments[number + 1]
        assert damaged.before is (found.segments[number - 1] if number else None)
        assert damaged.end_position == bases[number + 1]
        assert damaged.state is found.state
        assert damaged.state.topics.find("a") is not None
        assert "is damaged" in damaged.why.detail


def test_file_that_ends_elsewhere_mends_nothing(harness: LogHarness, sound: Sound) -> None:
    path = harness.segment_paths()[1]
    _damage(path)
    path.with_suffix(".idx").unlink()
    first = harness.segment_paths()[0]

    def mend(damaged: DamagedSegment) -> None:
        content = sound[path.name]
        damaged.segment.path.write_bytes(content[: content.rindex(b"LMQF")])  # without its last frame

    with pytest.raises(LogDamaged, match=rf"{path.name} is damaged at offset \d+: mended, it ends with position \d+"):
        _recover(harness, mend)
    assert first.exists()


@pytest.mark.parametrize("number", [0, 1, 3])
def test_damage_is_told_with_segment_offset_and_reason(harness: LogHarness, sound: Sound, number: int) -> None:
    path = harness.segment_paths()[number]
    offset = path.read_bytes().rindex(b"LMQF\xfe")
    _damage(path)
    path.with_suffix(".idx").unlink()
    with pytest.raises(LogDamaged) as caught:
        _recover(harness)
    why = "the payload's checksum does not match"
    assert caught.value.detail == f"segment {path.name} is damaged at offset {offset}: {why}"


def test_bad_first_frame_of_the_last_segment_is_told(harness: LogHarness, sound: Sound) -> None:
    path = harness.segment_paths()[-1]
    _damage(path, 20)
    with pytest.raises(LogDamaged) as caught:
        _recover(harness)
    assert caught.value.detail == f"segment {path.name} is damaged at offset 0: its first frame can't be read"


def test_half_a_repair_names_its_segments_and_is_refused(harness: LogHarness, sound: Sound) -> None:
    assert interrupted(FaultyFiles(), harness.directory) == []
    names = [path.name for path in harness.segment_paths()[:2]]
    (harness.directory / REPAIRING).write_bytes("\n".join(names).encode())
    assert interrupted(FaultyFiles(), harness.directory) == names
    with pytest.raises(LogDamaged) as caught:
        _recover(harness)
    assert caught.value.detail == "lakemq log repair did not come to its end: run it once more"


def test_index_that_cannot_be_used_is_named(
    harness: LogHarness, sound: Sound, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, last = harness.segment_paths()[0], harness.segment_paths()[-1]
    found = _recover(harness)
    segment = found.segments[0]
    whole = sealed_index(FaultyFiles(), segment)
    assert caplog.messages == []  # its file was good
    for path in (first, last):
        path.with_suffix(".idx").write_bytes(b"no index at all")
    found = _recover(harness)
    bad = "the preamble is cut off"
    assert caplog.messages == [
        f"made the index of segment {first.name} again",
        f"the index of segment {last.name} can't be used ({bad}); scanning the segment",
    ]
    caplog.clear()
    first.with_suffix(".idx").write_bytes(b"no index at all")
    again = sealed_index(FaultyFiles(), found.segments[0])
    assert again.extent() == whole.extent()
    assert again.state == whole.state  # it used to be empty until the file was read again
    assert caplog.messages == [
        f"the index of segment {first.name} can't be used: {bad}",
        f"made the index of segment {first.name} again",
    ]


def test_index_of_another_segment_and_one_that_cannot_be_written_are_named(
    harness: LogHarness, sound: Sound, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = harness.segment_paths()[0], harness.segment_paths()[-1]
    first.with_suffix(".idx").replace(last.with_suffix(".idx"))
    files = FaultyFiles()
    files.fail_replace = True
    for segment in recover(files, harness.directory, 60_000).segments:
        segment.close()
    assert caplog.messages == [
        f"can't write the index of segment {first.name}: [Errno 5] Input/output error",
        f"the index of segment {last.name} is another's; scanning the segment",
    ]


@pytest.mark.parametrize("content", [b"", bytes(8), b"LMQF"])
def test_segment_that_was_never_begun_is_named(
    harness: LogHarness, sound: Sound, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    end = _recover(harness).segments[-1].end_position
    (harness.directory / "FLUSHED").unlink()
    unborn = harness.directory / f"{end:020d}.log"
    unborn.write_bytes(content)
    found = _recover(harness)
    assert found.torn_bytes == len(content)
    assert not unborn.exists()
    assert caplog.messages == [f"segment {unborn.name} was never begun; removed its {len(content)} bytes"]


def test_segments_know_when_their_last_message_was_stored(harness: LogHarness, sound: Sound) -> None:
    stored = harness.clock.time_ms
    for _ in range(2):  # by their indexes, then without
        found = _recover(harness)
        assert [segment.last_store_time_ms for segment in found.segments] == [stored] * len(sound)
        assert [segment.size for segment in found.segments] == [len(content) for content in sound.values()]
        for path in harness.directory.glob("*.idx"):
            path.unlink()
