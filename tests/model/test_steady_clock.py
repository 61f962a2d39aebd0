from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.steady_clock import Reading, SteadyClock

WALL = 1_700_000_000_000
HOUR = 3_600_000


def started(confirm_ms: int = HOUR, last_ms: int | None = None) -> SteadyClock:
    return SteadyClock(Reading(WALL, 5_000), confirm_ms, last_ms=last_ms)


def test_two_clocks_that_agree_are_the_time() -> None:
    clock = started()
    assert clock.time_ms == WALL
    assert [clock.observe(Reading(WALL + at, 5_000 + at)) for at in (0, 10, 10, 70_000)] == [
        WALL,
        WALL + 10,
        WALL + 10,
        WALL + 70_000,
    ]
    assert clock.jump is None


def test_a_wall_that_jumps_ahead_is_not_followed_until_it_has_stayed_there() -> None:
    clock = started()
    for at in range(0, HOUR, 10_000):
        assert clock.observe(Reading(WALL + 72 * HOUR + at, 5_000 + at)) == WALL + at
        assert clock.jump is not None
        assert clock.jump.ahead_ms == 72 * HOUR
    assert clock.observe(Reading(WALL + 73 * HOUR, 5_000 + HOUR)) == WALL + 73 * HOUR
    assert clock.jump is None


def test_a_jump_that_is_mended_leaves_no_trace() -> None:
    clock = started()
    clock.observe(Reading(WALL + 10 * HOUR, 6_000))
    assert clock.observe(Reading(WALL + 2_000, 7_000)) == WALL + 2_000
    assert clock.jump is None


def test_a_wall_that_jumps_again_begins_to_be_confirmed_anew() -> None:
    clock = started()
    clock.observe(Reading(WALL + 10 * HOUR, 5_000))
    half = HOUR // 2
    clock.observe(Reading(WALL + 20 * HOUR + half, 5_000 + half))
    assert clock.observe(Reading(WALL + 20 * HOUR + HOUR, 5_000 + HOUR)) == WALL + HOUR
    assert clock.observe(Reading(WALL + 20 * HOUR + HOUR + half, 5_000 + HOUR + half)) == WALL + 21 * HOUR + half


def test_a_jump_is_believed_at_once_when_nothing_is_asked_for_and_when_somebody_says_so() -> None:
    clock = started(confirm_ms=0)
    assert clock.observe(Reading(WALL + 9 * HOUR, 6_000)) == WALL + 9 * HOUR
    clock = started()
    clock.confirm()
    assert clock.observe(Reading(WALL + 9 * HOUR, 6_000)) == WALL + 1_000
    clock.confirm()
    assert clock.time_ms == WALL + 9 * HOUR
    assert clock.jump is None


def test_a_wall_set_back_is_waited_for() -> None:
    clock = started()
    assert clock.observe(Reading(WALL - 60_000, 6_000)) == WALL
    assert clock.observe(Reading(WALL - 10_000, 56_000)) == WALL
    assert clock.observe(Reading(WALL + 5_000, 71_000)) == WALL + 5_000


def test_a_little_ahead_is_caught_up_with_slowly() -> None:
    clock = started()
    assert clock.observe(Reading(WALL + 1_800, 5_800)) == WALL + 900
    assert clock.observe(Reading(WALL + 9_800, 13_800)) == WALL + 9_800


def test_how_often_it_is_looked_at_changes_nothing() -> None:
    clock = started()
    time_ms = 0
    for at in range(8_010):
        time_ms = clock.observe(Reading(WALL + 1_000 + at, 5_000 + at))
    assert time_ms == WALL + 1_000 + 8_009


def test_a_start_does_not_know_how_long_the_machine_was_off() -> None:
    clock = started(last_ms=WALL - 24 * HOUR)
    assert clock.time_ms == WALL - 24 * HOUR
    assert clock.jump is not None
    assert started(last_ms=WALL - 1_000).jump is None
    assert started(confirm_ms=0, last_ms=WALL - 24 * HOUR).time_ms == WALL
    assert started(last_ms=WALL + HOUR).time_ms == WALL + HOUR


def test_a_counted_clock_that_went_back_counts_nothing() -> None:
    clock = started()
    assert clock.observe(Reading(WALL, 1_000)) == WALL


@given(st.lists(st.tuples(st.integers(0, HOUR // 2), st.integers(-(10**12), 10**12)), max_size=30))
def test_it_never_goes_back_and_never_runs_faster_than_what_was_counted_before_a_jump_is_confirmed(
    steps: list[tuple[int, int]],
) -> None:
    clock, counted, before = started(confirm_ms=10**15), 5_000, WALL
    for elapsed, shift in steps:
        counted += elapsed
        time_ms = clock.observe(Reading(WALL + counted + shift, counted))
        assert before <= time_ms <= before + elapsed + elapsed // 8 + 1  # what was kept of eighths before
        before = time_ms


def test_a_wall_that_creeps_on_stays_unbelieved() -> None:
    clock = started()
    clock.observe(Reading(WALL + HOUR, 5_000))
    for step in range(1, 80):  # a minute counted, and a second more on the wall each time
        clock.observe(Reading(WALL + HOUR + step * 61_000, 5_000 + step * 60_000))
    assert clock.jump is not None
