"""A log that is no whole one any more."""

from __future__ import annotations

from pathlib import Path

from tests.storage.harness import LogHarness


def make_shortened(data_dir: Path) -> int:
    """Make one whose oldest messages are only in the lake; the first position that it has."""
    harness = LogHarness(data_dir, retention_ms=1_000, compacted_grace_ms=0).open()
    harness.put_topic("a")
    while len(harness.log.segments) < 3:
        harness.roll("a")
    harness.settle()
    harness.log.retention.certain_position = harness.log.segments[-1].base_position
    harness.clock.time_ms += 2_000
    harness.log.retain()
    first = harness.log.min_position
    harness.close()
    assert first > 0
    return first
