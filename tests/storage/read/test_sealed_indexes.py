from __future__ import annotations

import asyncio
from pathlib import Path

from lakemq.storage.read.sealed_indexes import UNUSED_MAX, SealedIndexes
from lakemq.testing import FaultyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness


def test_an_index_that_nobody_asks_for_leaves_memory_and_is_read_again(harness: LogHarness) -> None:
    """A reader at the log's tail reads the end of a segment once more as the next one begins, and never again."""
    harness.roll("a")
    harness.wait_until_sealed()
    sealed, indexes = harness.log.segments[0], SealedIndexes(harness.log)
    index = indexes.get(sealed)
    assert indexes.memory_bytes == index.memory_bytes > 0
    for _ in range(2):
        for _ in range(UNUSED_MAX):
            indexes.forget_unused()
        assert indexes.get(sealed) is index
    for _ in range(UNUSED_MAX + 1):
        indexes.forget_unused()
    assert indexes.known(sealed) is None
    assert indexes.memory_bytes == 0
    assert indexes.get(sealed).positions == index.positions


class _Counting(FaultyFiles):
    """Counts the indexes that are read."""

    indexes = 0

    def open_read(self, path: Path) -> int:
        self.indexes += path.suffix == ".idx"
        return super().open_read(path)


def test_few_indexes_are_read_for_the_next_message_of_a_queue_that_is_seldom_used(make_log: MakeLog) -> None:
    """All between it and the one before were, one after the other, while everybody waited."""
    harness = make_log()
    harness.crash()
    files = harness.files = _Counting()
    harness.open()
    harness.put_topic("a")
    harness.append("a", 0, b"first")
    for count in range(2, 26):
        harness.log.begin_segment()
        while len(harness.log.segments) < count:
            harness.run(asyncio.sleep(0.001))
        harness.wait_until_sealed()
        harness.append("a", 0 if count == 20 else 1, b"%d" % count)
    harness.reopen()
    files.indexes = 0
    plan = harness.reader.plan(harness.queue("a"), 0, 2, 10_000)
    assert files.indexes < 15
    assert (plan.begin, plan.end) == (0, 2)
    assert [message.body for message in harness.read_queue("a", 0)] == [b"first", b"20"]
