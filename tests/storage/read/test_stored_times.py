from __future__ import annotations

from lakemq.storage.read.sealed_indexes import UNUSED_MAX
from lakemq.storage.read.stored_times import offset_stored_by_ms, stored_by_ms
from tests.storage.harness import LogHarness


def test_it_is_told_from_the_indexes_in_memory_and_else_by_when_the_segment_was_full(harness: LogHarness) -> None:
    harness.put_topic("t", 1)
    times: list[int] = []
    for body in (b"a", b"b"):
        harness.clock.time_ms += 1_000
        harness.append("t", 0, body)
        times.append(harness.log.now_ms())
    first = harness.log.next_position - 2
    assert [stored_by_ms(harness.reader, first + number) for number in (0, 1)] == times
    queue = harness.queue("t")
    assert [offset_stored_by_ms(harness.reader, queue, offset) for offset in (0, 1)] == times
    harness.roll("t")
    harness.wait_until_sealed()
    sealed = harness.log.segments[0]
    for _ in range(UNUSED_MAX + 1):
        harness.reader._indexes.forget_unused()  # pyright: ignore[reportPrivateUsage]
    assert harness.reader.known_index(sealed) is None
    assert stored_by_ms(harness.reader, first) == sealed.last_store_time_ms >= times[1]
    assert offset_stored_by_ms(harness.reader, queue, 0) == sealed.last_store_time_ms
    harness.reader.index(sealed)
    assert [offset_stored_by_ms(harness.reader, queue, offset) for offset in (0, 1)] == times
    assert stored_by_ms(harness.reader, first) == times[0]


def test_a_queue_that_nothing_is_known_of_is_as_old_as_the_log(harness: LogHarness) -> None:
    harness.put_topic("t", 1)
    began_ms = harness.log.now_ms()
    harness.clock.time_ms += 1_000
    assert offset_stored_by_ms(harness.reader, harness.queue("t"), 0) <= began_ms
