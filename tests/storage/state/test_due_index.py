from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakemq.storage.state.due_index import FINE_MS, SECOND_MS, DueIndex

NOW = 1_700_000_000_000
DAY = 24 * 3_600_000
NOTHING = BitMap64()


def take_due(index: DueIndex, dues: dict[int, int], at_ms: int, waiting: BitMap64) -> set[int]:
    """What a gateway would find that looks at that time, reading three at a time."""
    while begun := [slot for slot in index.begun(at_ms) if index.some(slot, waiting, NOTHING, 3)]:
        some = index.some(begun[0], waiting, NOTHING, 3)
        index.sort_out(begun[0], [(position, dues[position]) for position in some])
    while opening := [slot for slot in index.opening(at_ms, at_ms + 1_000) if index.some(slot, waiting, NOTHING, 3)]:
        some = index.some(opening[0], waiting, NOTHING, 3)
        index.sort_finely(opening[0], [(position, dues[position]) for position in some])
    found: set[int] = set()
    for slot in index.over(at_ms):
        found.update(index.some(slot, waiting, NOTHING, 10**6))
    return found


@given(
    st.lists(st.integers(1, 400 * DAY), min_size=1, max_size=60),
    st.lists(st.integers(0, 30 * DAY), max_size=12),
    st.sets(st.integers(0, 59)),
    st.booleans(),
)
def test_whatever_is_overdue_by_a_moment_is_found_and_nothing_that_is_not_due(
    delays: list[int], steps: list[int], ended: set[int], again: bool
) -> None:
    index, dues = DueIndex(), {number: NOW + delay for number, delay in enumerate(delays)}
    index.add(0, list(dues.values()), NOW)
    waiting = BitMap64(set(dues) - ended)
    at_ms = NOW
    for step in [*steps, 400 * DAY + 1_000]:
        at_ms += step
        if again:
            dumped = json.loads(json.dumps(index.dump(waiting)))
            index = DueIndex()
            index.restore(dumped)
        found = take_due(index, dues, at_ms, waiting)
        assert found <= {position for position in waiting if dues[position] <= at_ms}
        assert found >= {position for position in waiting if dues[position] <= at_ms - FINE_MS}
        waiting -= BitMap64(found)
    assert not waiting


def test_what_can_not_be_done_now_is_looked_at_later() -> None:
    index = DueIndex()
    index.add(7, [NOW + 1_500, NOW + 1_600], NOW)
    waiting = BitMap64([7, 8])
    (slot,) = index.over(NOW + 9_000)
    index.put_off(slot, [7], NOW + 60_000)
    assert [index.some(each, waiting, NOTHING, 9) for each in index.over(NOW + 9_000)] == [[8]]
    index.put_off(slot, [8], NOW + 60_000)
    assert index.over(NOW + 9_000) == []
    assert index.count(NOW + 61_000, waiting, NOTHING) == 2
    assert index.count(NOW + 61_000, waiting, BitMap64([8])) == 1


def test_it_is_known_when_something_is_due_next() -> None:
    index, waiting, dues = DueIndex(), BitMap64([0, 1, 2]), [NOW + 1_500, NOW + 1_514, NOW + 30_000]
    index.add(0, dues, NOW)
    assert index.next_ms(NOW, 1_000) == NOW + 29_000  # the first second has begun, as far as that is looked ahead
    (slot,) = index.opening(NOW, NOW + 1_000)
    index.sort_finely(slot, zip(index.some(slot, waiting, NOTHING, 9), dues, strict=False))
    assert index.next_ms(NOW, 1_000) == NOW + 1_510
    assert index.next_ms(NOW + 1_510, 1_000) == NOW + 1_520
    assert [index.some(each, waiting, NOTHING, 9) for each in index.over(NOW + 1_519)] == [[0]]
    assert index.next_ms(NOW + 29_000, 1_000) is None


def test_what_was_put_off_is_not_looked_at_before_however_long_it_has_been_due() -> None:
    index, waiting = DueIndex(), BitMap64([7])
    index.add(7, [NOW], NOW)
    (slot,) = index.over(NOW + 1_000)
    index.put_off(slot, [7], NOW + 60_000)
    (later,) = index.opening(NOW + 59_500, NOW + 60_500)
    index.sort_finely(later, [(7, NOW)])
    assert index.over(NOW + 59_999) == []
    assert [index.some(each, waiting, NOTHING, 9) for each in index.over(NOW + 60_000 + FINE_MS)] == [[7]]


def test_what_nobody_decides_takes_no_slot_a_second_for_ever() -> None:
    index, count = DueIndex(), 5_000
    dues = {number: NOW + 1_000 * number for number in range(count)}
    for number, due_ms in dues.items():
        index.add(number, [due_ms], due_ms)
    index.add(count, [NOW + DAY], NOW)
    waiting = BitMap64(range(count + 1))
    index.merge(NOW + 1_000 * (count - 10))
    assert index.slots < 20
    assert index.count(NOW + 1_000 * (count - 10), waiting, NOTHING) == count - 10
    assert index.count(NOW + 1_000 * count, waiting, NOTHING) == count


def test_its_size_follows_what_waits_whatever_has_been() -> None:
    index, waiting = DueIndex(), BitMap64()
    for first in range(0, 200_000, 1_000):
        index.add(first, [NOW + 5 * DAY] * 1_000, NOW)
        index.tidy(waiting)
    assert len(index) <= 12_000


def test_a_year_of_random_due_times_takes_a_few_hundred_slots_and_little_more_than_two_bytes_each() -> None:
    rng, index, count = random.Random(1), DueIndex(), 200_000
    index.add(0, [NOW + rng.randrange(366 * DAY) for _ in range(count)], NOW)
    waiting = BitMap64()
    waiting.add_range(0, count)
    assert index.slots < 400
    # base64 is a third more; of neighbours that are due together there would be next to nothing.
    assert len(json.dumps(index.dump(waiting))) < 3.5 * count
    together = DueIndex()
    together.add(0, [NOW + DAY] * count, NOW)
    assert len(json.dumps(together.dump(waiting))) < 2_000


def test_a_copy_stays_as_it_is_whatever_happens_to_the_index() -> None:
    """A snapshot is written from a copy by a thread, and copies no set that isn't changed."""
    index, everything = DueIndex(), BitMap64(range(100))
    index.add(0, [number * 500 for number in range(50)], 0)
    index.add(50, [10_000_000 + number for number in range(20)], 0)
    copied = index.copy()
    then = copied.dump(everything)
    (wide,) = [slot for slot, _ in index if slot.width_ms > SECOND_MS]
    first, second, *_ = index.over(30_000)
    index.add(70, [100, 600, 10_000_000], 0)
    index.sort_out(wide, [(50, 10_000_000)])
    index.put_off(first, [0, 1], 90_000)
    assert index.some(second, BitMap64([2]), BitMap64(), 10) == [2]
    assert index.count(30_000, BitMap64(), BitMap64()) == 0
    assert copied.dump(everything) == then != index.dump(everything)
