"""What a power cut leaves after what was flushed: cut where it begins to be bad, and kept when more than a
torn frame is in it."""

from __future__ import annotations

import pytest

from lakemq.model.errors import LogDamaged
from lakemq.storage.mend.verify import verify_log
from tests.storage.harness import LogHarness


def write_some(harness: LogHarness) -> list[int]:
    """Store six frames; returns the segment's size after each of them."""
    sizes: list[int] = []
    for number in range(6):
        harness.append("a", number % 3, *[b"%d-%d" % (number, row) for row in range(number % 4 + 1)])
        sizes.append(harness.active.size)
    return sizes


def test_tail_that_was_never_flushed_is_cut_at_its_first_bad_frame_and_kept_beside(harness: LogHarness) -> None:
    (path,) = harness.segment_paths()
    for number, bad in enumerate((4, 1), 1):
        harness.flush()
        before = harness.read_log()
        sizes = [harness.active.size, *write_some(harness)]
        harness.crash()
        content = bytearray(path.read_bytes())
        content[sizes[bad] - 20] ^= 1
        path.write_bytes(content)
        if number == 1:
            with pytest.raises(LogDamaged, match=f"offset {sizes[bad - 1]}:"):
                harness.open()  # the machine has run on: no power cut did that
        harness.files.boots += 1
        harness.open()
        assert harness.log.torn_bytes == len(content) - sizes[bad - 1]
        assert (path.parent / f"{path.name}.torn-{number}").read_bytes() == content[sizes[bad - 1] :]
        assert harness.read_log()[: len(before)] == before
        harness.append("a", 0, b"more")
        assert harness.read_log()[-1].body == b"more"
    harness.close()
    assert verify_log(harness.directory.parent).sound


def test_start_on_a_full_disk_leaves_no_part_of_the_tail_and_goes_on_once_there_is_room(harness: LogHarness) -> None:
    """Each start took what room somebody had made for it."""
    harness.flush()
    sizes = [harness.active.size, *write_some(harness)]
    harness.crash()
    (path,) = harness.segment_paths()
    content = bytearray(path.read_bytes())
    content[sizes[1] - 20] ^= 1
    path.write_bytes(content)
    harness.files.boots += 1
    before = {each.name: each.read_bytes() for each in harness.directory.iterdir()}
    for _ in range(2):
        harness.files.room_bytes = 100
        with pytest.raises(OSError, match="No space"):
            harness.open()
        assert {each.name: each.read_bytes() for each in harness.directory.iterdir()} == before
    harness.files.room_bytes = len(content)
    harness.open()
    assert (path.parent / f"{path.name}.torn-1").read_bytes() == content[sizes[0] :]
    harness.files.room_bytes = None
    harness.close()
