"""What a nack leads to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.delay import parse_levels
from lakemq.model.retry import ReceiptState, RetryState, decide, decide_run_out

LEVELS = parse_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


def test_the_broker_chooses_level_3_and_one_more_each_time() -> None:
    assert [decide(times, 0, 16, LEVELS, 0).due_ms for times in range(4)] == [10_000, 30_000, 60_000, 120_000]
    assert decide(15, 0, 16, LEVELS, 0).due_ms == LEVELS[-1]


def test_the_consumer_may_choose_a_level() -> None:
    assert decide(7, 1, 16, LEVELS, 500) == ("retry", 1_500)


def test_below_zero_is_the_dead_letters() -> None:
    assert decide(0, -1, 16, LEVELS, 0) == ("dead_letter", None)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 30))
def test_after_the_last_attempt_come_the_dead_letters(times: int, most: int, level: int) -> None:
    assert (decide(times, level, most, LEVELS, 0).action == "dead_letter") == (times >= most)


def test_the_states_have_letters() -> None:
    assert "".join(RetryState) == "NWTQZ"
    assert "".join(ReceiptState) == "OACTQF"


@given(st.integers(0, 100), st.integers(0, 100))
def test_what_runs_out_is_retried_as_often_as_what_is_nacked(times: int, most: int) -> None:
    assert decide_run_out(times, most) == decide(times, 0, most, LEVELS, 0).action
