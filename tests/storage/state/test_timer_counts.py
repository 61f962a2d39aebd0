from __future__ import annotations

import random

from lakemq.storage.state import timer_counts
from lakemq.storage.state.timer_counts import BUCKET_MS, TimerCounts


def test_its_size_follows_the_timers_that_there_are_however_many_came_and_went() -> None:
    counts = TimerCounts()
    counts.add(0)  # is the earliest, and hides all others
    for number in range(10_000):
        counts.add(BUCKET_MS * (1 + number % 3))
        counts.remove(BUCKET_MS * (1 + number % 3))
    assert len(counts._heap) <= 2 + timer_counts.SLACK + 1  # pyright: ignore[reportPrivateUsage]
    assert counts.earliest() == 0


def test_the_earliest_bucket_is_that_of_the_earliest_timer() -> None:
    chance, counts, there = random.Random(7), TimerCounts(), list[int]()
    for _ in range(5_000):
        if there and chance.random() < 0.55:
            due_ms = there.pop(chance.randrange(len(there)))
            counts.remove(due_ms)
        else:
            there.append(chance.randrange(5 * BUCKET_MS))
            counts.add(there[-1])
        assert counts.earliest() == (min(there) // BUCKET_MS * BUCKET_MS if there else None)
