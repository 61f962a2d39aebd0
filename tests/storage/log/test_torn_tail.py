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
