"""What is due when, of all that waits, against a list that is sorted."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakemq.gateway.routing import due_list
from lakemq.gateway.routing.due_list import START, Place, due_times, soonest
from lakemq.storage.state import due_times as chunks
from lakemq.storage.state.due_times import DueTimes

NOW = 1_700_000_000_000
DAY = 24 * 3_600_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 8)
    monkeypatch.setattr(due_list, "LOOKED_MAX", 10)


def filled(chance: random.Random, span_ms: int) -> tuple[DueTimes, BitMap64, list[Place]]:
    """Times, which of them wait, and these in the order that they are due in."""
    times, places, position = DueTimes(), list[Place](), 0
    for _ in range(chance.randrange(30)):
        position += chance.choice([0, 1, 1, 2**32 + 1])
        fresh = [NOW + chance.randrange(span_ms) for _ in range(chance.randrange(12))]
        times.add(position, fresh)
        places += [Place(due, position + at) for at, due in enumerate(fresh)]
        position += len(fresh)
    waiting = [each for each in places if chance.random() < chance.choice([0.2, 0.9, 1.0])]
    return times, BitMap64([each.position for each in waiting]), sorted(waiting)


@given(st.integers(0, 2**32), st.sampled_from([3, 1_000, DAY, 300 * DAY]))
def test_pages_have_all_that_waits_once_in_the_order_that_it_is_due_in(seed: int, span_ms: int) -> None:
    times, waiting, wanted = filled(random.Random(seed), span_ms)
    found, after, pages = list[Place](), START, 0
    while True:
        page = soonest(times, waiting, after)
        assert len(page.places) <= 10
        found += page.places
        pages += 1
        if page.ends:
            break
        assert page.reached > after
        after = page.reached
    assert found == wanted
    assert pages <= len(times) // 10 + 1


@given(st.integers(0, 2**32), st.sampled_from([3, DAY, 300 * DAY]), st.integers(1, 20), st.booleans())
def test_each_that_waits_is_counted_where_it_is_due(seed: int, span_ms: int, buckets: int, all_of_it: bool) -> None:
    chance = random.Random(seed)
    times, waiting, wanted = filled(chance, span_ms)
    begin = NOW + chance.randrange(span_ms)
    end = None if all_of_it else begin + 1 + chance.randrange(span_ms)
    found = due_times(times, waiting, begin, end, buckets)
    assert len(found.counts) == buckets
    assert (found.before, found.before + sum(found.counts) + found.after) == (
        sum(each.due_ms < begin for each in wanted),
        len(wanted),
    )
    for number, count in enumerate(found.counts):
        low = begin + number * found.bucket_ms
        assert count == sum(low <= each.due_ms < low + found.bucket_ms for each in wanted)
    if all_of_it:
        assert found.after == 0
