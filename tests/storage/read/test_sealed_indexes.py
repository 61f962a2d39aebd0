from __future__ import annotations

from lakemq.storage.read.sealed_indexes import UNUSED_MAX, SealedIndexes
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
