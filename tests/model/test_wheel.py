"""The outer timing wheel."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.wheel import WIDTHS_MS, Slot, Waiting, pack, slot_of, slots_firing_at, sort_out, unpack

YEAR_MS = 366 * 86_400_000
NOW_MS = 1_790_000_000_000
INTEGERS = st.integers(-(2**63), 2**63 - 1)
LEADS_MS = st.sampled_from([0, 1, 999, 10_000, 123_456])
DISTANCES_MS = st.one_of(
    st.integers(-YEAR_MS, YEAR_MS),
    st.integers(-2_000, 200_000),
    st.builds(
        lambda width, count, more: width * count + more,
        st.sampled_from(WIDTHS_MS), st.integers(0, 65), st.integers(-1, 1),
    ),
)  # fmt: skip
STEPS_MS = st.one_of(st.integers(1, 5_000), st.integers(1, 600_000), st.integers(1, YEAR_MS))


class Wheel:
    """What the query keeps in its state: slots and their timers; `decided` is at which look."""

    def __init__(self, now_ms: int, lead_ms: int) -> None:
        self.now_ms, self.lead_ms = now_ms, lead_ms
        self.slots: dict[Slot, bytes] = {}
        self.decided: dict[Waiting, int] = {}
        self.moves: Counter[Waiting] = Counter()

    def put(self, rows: list[Waiting]) -> None:
        for slot, sorted_out in sort_out(rows, self.now_ms, self.lead_ms).items():
            if slot is None:
                for row in sorted_out:
                    assert row not in self.decided
                    self.decided[row] = self.now_ms
            else:
                self.moves.update(sorted_out)
                self.slots[slot] = self.slots.get(slot, b"") + pack(sorted_out)

    def next_timer_ms(self) -> int | None:
        return min((slot.fires_at_ms(self.lead_ms) for slot in self.slots), default=None)

    def advance(self, now_ms: int) -> None:
        """As Spark does: each timer that is over fires once, with the present time."""
        self.now_ms = now_ms
        for timer_ms in sorted({slot.fires_at_ms(self.lead_ms) for slot in self.slots}):
            if timer_ms <= now_ms:
                for slot in slots_firing_at(timer_ms, self.lead_ms):
                    if slot in self.slots:
                        self.put(list(unpack(self.slots.pop(slot))))


@given(
    LEADS_MS,
    st.lists(st.tuples(st.lists(DISTANCES_MS, max_size=20), STEPS_MS), min_size=1, max_size=20),
)
def test_each_message_is_decided_once_at_the_first_look_at_or_after_its_time(
    lead_ms: int, arrivals: list[tuple[list[int], int]]
) -> None:
    wheel = Wheel(NOW_MS, lead_ms)
    looks, arrived = [NOW_MS], dict[Waiting, int]()
    for distances, step_ms in arrivals:
        rows = [Waiting(len(arrived) + at, wheel.now_ms + each) for at, each in enumerate(distances)]
        arrived |= dict.fromkeys(rows, wheel.now_ms)
        wheel.put(rows)
        wheel.advance(wheel.now_ms + step_ms)
        looks.append(wheel.now_ms)
    while (timer_ms := wheel.next_timer_ms()) is not None:
        wheel.advance(timer_ms)
        looks.append(timer_ms)
    assert set(wheel.decided) == set(arrived)
    for row, decided_ms in wheel.decided.items():
        wanted_ms = row.due_ms - lead_ms
        assert decided_ms > wanted_ms - WIDTHS_MS[0]
        late = [look for look in looks if max(wanted_ms, arrived[row]) <= look < decided_ms]
        assert late == []
    assert max(wheel.moves.values(), default=0) <= len(WIDTHS_MS)


@given(DISTANCES_MS, LEADS_MS)
def test_a_slot_holds_its_due_times_and_fires_after_now(distance_ms: int, lead_ms: int) -> None:
    due_ms = NOW_MS + distance_ms
    slot = slot_of(due_ms, NOW_MS, lead_ms)
    if slot is None:
        assert due_ms - lead_ms < NOW_MS + WIDTHS_MS[0]
        return
    assert slot.number * slot.width_ms <= due_ms < (slot.number + 1) * slot.width_ms
    assert slot.fires_at_ms(lead_ms) > NOW_MS
    assert slot in slots_firing_at(slot.fires_at_ms(lead_ms), lead_ms)


def test_messages_of_a_year_wait_in_few_slots() -> None:
    rows = [Waiting(at, NOW_MS + at) for at in range(0, YEAR_MS, 400_000)]
    assert len(sort_out(rows, NOW_MS, 10_000)) < 64 * 3 + YEAR_MS // WIDTHS_MS[-1]


@given(st.lists(st.builds(Waiting, INTEGERS, INTEGERS)), st.lists(st.builds(Waiting, INTEGERS, INTEGERS)))
def test_packs_can_be_joined(first: list[Waiting], second: list[Waiting]) -> None:
    assert list(unpack(pack(first) + pack(second))) == first + second


def test_a_torn_pack_is_an_error() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        unpack(bytes(15))
