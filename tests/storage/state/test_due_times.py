from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakemq.storage.state import due_times
from lakemq.storage.state.due_times import NOT_KNOWN, DueTimes

NOW = 1_700_000_000_000
DAY = 24 * 3_600_000
YEAR = 366 * DAY


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_times, "CHUNK", 8)
    monkeypatch.setattr(due_times, "TIDIED_MAX", 2)


@given(st.integers(0, 2**32), st.booleans())
def test_it_says_of_each_that_waits_when_it_is_due(seed: int, far: bool) -> None:
    chance = random.Random(seed)
    times, dues, waiting = DueTimes(), dict[int, int](), BitMap64()
    position = 0
    for _ in range(chance.randrange(1, 30)):
        position += chance.choice([0, 0, 1, 100, 2**33])
        fresh = [NOW + chance.randrange(YEAR if far else DAY) for _ in range(chance.randrange(20))]
        times.add(position, fresh)
        for due in fresh:
            dues[position] = due
            waiting.add(position)
            position += 1
        for each in chance.sample(list(waiting), len(waiting) // chance.choice([1, 2, 3, 9])):
            waiting.discard(each)
        step = chance.randrange(6)
        if step == 0:
            times.tidy(waiting)
        elif step == 1:
            dumped = json.loads(json.dumps(times.copy().dump(waiting)))
            times = DueTimes()
            times.restore(dumped, waiting)
            assert len(times) == len(waiting)
    assert {each: times.of(each) for each in waiting} == {each: dues[each] for each in waiting}
    after, begin_ms, end_ms = chance.randrange(position + 1), NOW + DAY // 4, NOW + DAY // 2
    found = list(times.between(after, begin_ms, end_ms))
    assert found == sorted(found)
    wanted = {each: dues[each] for each in waiting if each > after and begin_ms <= dues[each] < end_ms}
    assert {each: due for each, due in found if each in waiting} == wanted
    assert all(dues[each] == due for each, due in found)


def test_what_it_was_never_told_is_due_at_once() -> None:
    times = DueTimes()
    times.add(10, [NOW] * 3)
    times.add(100, [NOW])
    assert [times.of(each) for each in (9, 10, 13, 99, 100, 101)] == [
        NOT_KNOWN,
        NOW,
        NOT_KNOWN,
        NOT_KNOWN,
        NOW,
        NOT_KNOWN,
    ]
    dumped = times.dump(BitMap64([5, 11, 50, 100, 200]))
    times.restore(dumped, BitMap64([5, 11, 50, 100, 200]))
    assert list(times.between(-1, 0, NOW + 1)) == [
        (5, NOT_KNOWN), (11, NOW), (50, NOT_KNOWN), (100, NOW), (200, NOT_KNOWN)
    ]  # fmt: skip


def test_what_waits_no_more_is_forgotten_some_at_a_time() -> None:
    times, waiting = DueTimes(), BitMap64()
    for first in range(0, 800, 8):
        times.add(first, [NOW] * 8)
        waiting.add(first)
    counts = [len(times)]
    for _ in range(200):
        times.tidy(waiting)
        counts.append(len(times))
    assert counts[:2] == [800, 800 - 2 * 7]
    assert counts == sorted(counts, reverse=True)
    assert len(times) <= 2 * len(waiting)
    assert {each: times.of(each) for each in waiting} == dict.fromkeys(waiting, NOW)
    for _ in range(20):
        times.tidy(BitMap64())
    assert len(times) == 0


def test_while_messages_come_all_the_time_what_waits_no_more_is_forgotten_too() -> None:
    times, waiting = DueTimes(), BitMap64()
    counts: list[int] = []
    for first in range(0, 8_000, 20):
        times.add(first, [NOW] * 20)
        waiting.add_range(first, first + 20)
        waiting.remove_range(0, max(first - 20, 0))
        times.tidy(waiting)
        counts.append(len(times))
    assert max(counts) < 100
