"""The log's bytes as they are, read at once where nothing has to be waited for."""

from __future__ import annotations

import errno

from lakemq.storage.read.raw_frames import read_at_once, read_raw, with_states
from lakemq.storage.read.reader import PositionPlan, Reader
from tests.storage.harness import LogHarness

ALL = 10_000_000


def plan_all(reader: Reader, begin: int, end: int) -> PositionPlan:
    return with_states(reader, reader.plan_positions(begin, end, None, ALL))


def test_what_is_in_memory_is_read_at_once_and_is_the_same(harness: LogHarness) -> None:
    harness.append("a", 0, b"one", b"two")
    harness.append("a", 1, b"three")
    reader, end = harness.reader, harness.log.next_position
    for begin in range(end + 1):
        plan = plan_all(reader, begin, end)
        found = read_at_once(reader, plan)
        assert found is not None
        assert b"".join(found) == b"".join(read_raw(reader, plan))
    assert b"three" in b"".join(read_at_once(reader, plan_all(reader, 0, end)) or [])


def test_what_may_have_to_be_waited_for_is_not(harness: LogHarness) -> None:
    harness.put_topic("b", 1)
    for topic in ("a", "b", "a"):
        harness.append(topic, 0, b"one")
    reader, end = harness.reader, harness.log.next_position
    assert read_at_once(reader, reader.plan_positions(0, end, {"a"}, ALL)) is None  # frames with others between them
    whole = plan_all(reader, 0, end)
    assert read_at_once(reader, whole) is not None
    harness.files.fail_read = errno.EIO
    assert read_at_once(reader, whole) is None
    harness.files.fail_read = None
    harness.roll("a")
    assert read_at_once(reader, whole) is None  # a segment that is written no more
    assert b"".join(read_raw(reader, whole))
