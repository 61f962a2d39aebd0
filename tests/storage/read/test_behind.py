"""How many bytes of the log come after a place in it."""

from __future__ import annotations

from lakemq.storage.read.behind import Behind
from lakemq.storage.segment.segment import Segment
from tests.storage.harness import LogHarness


def _bytes_from(segments: list[Segment], segment: Segment, offset: int) -> int:
    at = segments.index(segment)
    return sum(each.size for each in segments[at:]) - offset


def test_it_is_what_the_files_have_after_that_also_when_the_log_grows_and_rolls(harness: LogHarness) -> None:
    behind = Behind(harness.log)
    for _ in range(3):
        harness.append("a", 0, b"some message")
        segments = list(harness.log.segments)
        for each in segments:
            for offset in (0, each.size // 2, each.size):
                assert behind.bytes_from(each, offset) == _bytes_from(segments, each, offset)
        harness.append("a", 0, b"in the same segment")
        assert behind.bytes_from(segments[0], 0) == _bytes_from(segments, segments[0], 0)
        harness.roll("a")
    assert len(harness.log.segments) == 4


def test_what_has_left_the_log_is_behind_all_of_it(harness: LogHarness) -> None:
    behind = Behind(harness.log)
    harness.append("a", 0, b"some message")
    first = harness.log.segments[0]
    harness.roll("a")
    rest = list(harness.log.segments[1:])
    harness.log.segments.remove(first)
    assert behind.bytes_from(first, 7) == sum(each.size for each in rest)
