"""How often somebody may try to sign in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.console.tries import ADDRESSES_MAX, BURST, SECONDS_EACH, Tries

ONE, OTHER = "192.0.2.1", "192.0.2.2"


def test_so_many_may_fail_at_once_and_then_one_each_so_many_seconds() -> None:
    tries = Tries()
    for _ in range(BURST):
        assert tries.wait_s(ONE, 1_000.0) == 0
        tries.failed(ONE, 1_000.0)
    assert tries.wait_s(ONE, 1_000.0) == SECONDS_EACH
    assert tries.wait_s(OTHER, 1_000.0) == 0
    assert tries.wait_s(ONE, 1_000.0 + SECONDS_EACH) == 0
    tries.failed(ONE, 1_000.0 + SECONDS_EACH)
    assert tries.wait_s(ONE, 1_000.0 + SECONDS_EACH) == SECONDS_EACH


@given(st.lists(st.floats(0, 100), max_size=200))
def test_whoever_waits_as_told_fails_no_more_often_than_that(pauses_s: list[float]) -> None:
    tries, now_s, failed = Tries(), 0.0, 0
    for pause_s in pauses_s:
        now_s += pause_s
        if tries.wait_s(ONE, now_s) == 0:
            tries.failed(ONE, now_s)
            failed += 1
        assert failed <= BURST + now_s / SECONDS_EACH + 1e-6


def test_a_machine_with_many_addresses_is_one_and_no_more_than_so_many_are_known() -> None:
    tries = Tries()
    for number in range(BURST):
        tries.failed(f"2001:db8::{number + 1}", 0.0)
    assert tries.wait_s("2001:db8::ffff", 0.0) == SECONDS_EACH
    for number in range(ADDRESSES_MAX):
        tries.failed(f"2001:db8:{number + 1:x}::1", 0.0)
    assert tries.wait_s("2001:db8::ffff", 0.0) == 0, "those that failed longest ago are forgotten"
