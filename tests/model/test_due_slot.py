"""Slots of due times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.due_slot import FANOUT, WIDTHS_MS, slot_of

YEAR_MS = 366 * 86_400_000
NOW_MS = 1_790_000_000_000
LEADS_MS = st.sampled_from([0, 1, 999, 10_000, 123_456])
DISTANCES_MS = st.one_of(
    st.integers(-YEAR_MS, YEAR_MS),
    st.integers(-2_000, 200_000),
    st.builds(
        lambda width, count, more: width * count + more,
        st.sampled_from(WIDTHS_MS), st.integers(0, 65), st.integers(-1, 1),
    ),
)  # fmt: skip


@given(DISTANCES_MS, LEADS_MS)
def test_a_slot_holds_its_due_times_and_fires_after_now(distance_ms: int, lead_ms: int) -> None:
    due_ms = NOW_MS + distance_ms
    slot = slot_of(due_ms, NOW_MS, lead_ms)
    if slot is None:
        assert due_ms - lead_ms < NOW_MS + WIDTHS_MS[0]
        return
    assert slot.number * slot.width_ms <= due_ms < (slot.number + 1) * slot.width_ms
    assert slot.fires_at_ms(lead_ms) == slot.number * slot.width_ms - lead_ms > NOW_MS
    narrower = [width_ms for width_ms in WIDTHS_MS if width_ms < slot.width_ms]
    assert all(due_ms - lead_ms - NOW_MS >= FANOUT * width_ms for width_ms in narrower), "the narrowest that will do"


def test_messages_of_a_year_wait_in_few_slots() -> None:
    slots = {slot_of(NOW_MS + distance_ms, NOW_MS, 10_000) for distance_ms in range(0, YEAR_MS, 400_000)}
    assert len(slots) < 64 * 3 + YEAR_MS // WIDTHS_MS[-1]
