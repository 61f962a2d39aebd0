"""What the wheel's entries lead to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.wheel import LISTED_MS, Due, Entry, Terms, decide_due, listed_until

TERMS = Terms(10_000, (100, 200, 300, 400), 6_000, 30_000, 2, 3)


@pytest.mark.parametrize(
    ("due", "action", "due_ms"),
    [
        (Due(Entry.DELAY, 7, 1_000, 0, -1, 0), "deliver", 1_000),
        (Due(Entry.HALF, 7, 1_000, 0, -1, 0), "check", None),
        (Due(Entry.HALF, 7, 1_000, 1, -1, 0), "check", None),
        (Due(Entry.HALF, 7, 1_000, 2, -1, 0), "give_up", None),
        (Due(Entry.COMMIT, 7, 1_000, 0, -1, 0), "commit", None),
        (Due(Entry.ROLLBACK, 7, 1_000, 0, -1, 0), "rollback", None),
        (Due(Entry.RECEIPT, 7, 1_000, 2, -1, 0), "retry", 1_000),
        (Due(Entry.RECEIPT, 7, 1_000, 3, -1, 0), "dead_letter", 1_000),
        (Due(Entry.RECEIPT, 7, 1_000, 3, 4, 0), "retry", 1_000),
        (Due(Entry.RECEIPT, 7, 1_000, 0, 0, 0), "dead_letter", 1_000),
        (Due(Entry.NACK, 7, 1_000, 0, -1, 0), "retry", 1_300),
        (Due(Entry.NACK, 7, 1_000, 0, -1, 1), "retry", 1_100),
        (Due(Entry.NACK, 7, 1_000, 3, -1, 0), "dead_letter", None),
        (Due(Entry.NACK, 7, 1_000, 3, 4, 0), "retry", 1_400),
        (Due(Entry.NACK, 7, 1_000, 0, -1, -1), "dead_letter", None),
    ],
)
def test_an_entry_leads_to_one_thing(due: Due, action: str, due_ms: int | None) -> None:
    assert decide_due(due, TERMS) == (7, action, due_ms)


@pytest.mark.parametrize("kind", [Entry.CLOCK, Entry.ENDED])
def test_time_and_ends_are_never_due(kind: Entry) -> None:
    with pytest.raises(ValueError, match=kind.name):
        decide_due(Due(kind, 7, 0, 0, -1, 0), TERMS)


@given(st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_whatever_a_consumer_says_there_is_a_decision(times: int, most: int, level: int) -> None:
    for kind in (Entry.RECEIPT, Entry.NACK):
        decided = decide_due(Due(kind, 7, 1_000, times, most, level), TERMS)
        assert decided.action in ("retry", "dead_letter")
        assert decided.due_ms is None or decided.due_ms >= 1_000


@given(st.integers(0, 2**45))
def test_the_wheel_holds_what_is_due_within_one_to_two_stretches(now_ms: int) -> None:
    until_ms = listed_until(now_ms)
    assert until_ms % LISTED_MS == 0
    assert LISTED_MS < until_ms - now_ms <= 2 * LISTED_MS
    assert listed_until(now_ms + 1) in (until_ms, until_ms + LISTED_MS)
