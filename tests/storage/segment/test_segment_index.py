from __future__ import annotations

import tracemalloc

import pytest

from lakemq.storage.segment import segment_index
from lakemq.storage.segment.segment_index import SegmentIndex, load

MIB = 2**20


def made(frames: int, queues: int) -> SegmentIndex:
    """An index of so many frames of a message each, dealt to the queues in turn."""
    index = SegmentIndex(100)
    index.start({("t", number): 0 for number in range(queues)})
    add(index, frames)
    return index


def add(index: SegmentIndex, frames: int) -> None:
    begin = len(index.positions)
    for number in range(begin, begin + frames):
        index.positions.append(100 + number)
        index.offsets.append(50 * number)
        index.times.append(7 * number)
        key = "t", number % len(index.queues)
        index.add_run(key, index.queues[key].next_offset, 1, 50 * number)
    index.end_position, index.covered_bytes = 100 + begin + frames, 50 * (begin + frames)


@pytest.mark.parametrize("piece", [1, 3, 64, 10_000])
@pytest.mark.parametrize("queues", [1, 7])
def test_what_is_written_is_the_index_of_then_whatever_is_added_meanwhile(
    monkeypatch: pytest.MonkeyPatch, piece: int, queues: int
) -> None:
    monkeypatch.setattr(segment_index, "PIECE", piece)
    index = made(100, queues)
    pieces = index.dump({"topics": []})
    data = next(pieces)
    for some in pieces:
        data += some
        add(index, 10)
    restored, then = load(data), made(100, queues)
    assert restored.extent() == then.extent()
    assert (restored.positions, restored.offsets, restored.times) == (then.positions, then.offsets, then.times)
    for key, runs in then.queues.items():
        found = restored.queues[key]
        assert (found.first_offsets, found.frame_offsets, found.next_offset) == (
            runs.first_offsets, runs.frame_offsets, runs.next_offset
        )  # fmt: skip


def test_an_index_is_written_without_a_second_one_in_memory() -> None:
    """What a thread needed for that, every half minute, the process never gave back."""
    index = made(500_000, 1)
    assert index.memory_bytes == 40 * 500_000
    tracemalloc.start()
    try:
        size = sum(map(len, index.dump({"topics": []})))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > index.memory_bytes
    assert peak < 3 * MIB
