"""Segments that are written no more: each ends where the next one begins, whoever mended it."""

from __future__ import annotations

import pytest

from lakemq.model.errors import LogDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.log.damaged_segment import DamagedSegment
from lakemq.storage.log.recovery import recover
from tests.storage.harness import LogHarness


def test_one_that_goes_on_beyond_the_next_ones_beginning_is_refused(harness: LogHarness) -> None:
    harness.roll("a")
    harness.append("a", 0, b"later")
    harness.close()
    first, last = harness.segment_paths()
    first.with_suffix(".idx").unlink()
    first.write_bytes(first.read_bytes() + last.read_bytes())
    with pytest.raises(LogDamaged, match=f"begins with {int(last.stem)}"):
        harness.open()


def test_a_mend_that_leaves_out_positions_is_refused(harness: LogHarness) -> None:
    harness.append("a", 0, b"kept")
    kept = harness.active.size
    harness.append("a", 0, b"damaged")
    harness.roll("a")
    harness.close()
    path = harness.segment_paths()[0]
    content = path.read_bytes()
    path.write_bytes(content[: kept + 9] + bytes(1) + content[kept + 10 :])

    def cut(damaged: DamagedSegment) -> None:
        damaged.segment.close()
        path.write_bytes(content[:kept])
        path.with_suffix(".idx").unlink(missing_ok=True)

    with pytest.raises(LogDamaged, match="mended, it ends with position"):
        recover(Files(), harness.directory, 10_000, mend=cut)
