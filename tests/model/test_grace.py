"""What has been known for a while."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.grace import STEPS, Grace

GRACE = 300_000


def test_what_was_said_counts_after_the_grace() -> None:
    grace = Grace(GRACE)
    grace.say(10, 1_000)
    assert grace.past(1_000 + GRACE - 1) == 0
    assert grace.past(1_000 + GRACE) == 10


def test_without_a_grace_it_counts_at_once() -> None:
    grace = Grace(0)
    grace.say(10, 5)
    assert grace.past(5) == 10
    grace.say(12, 5)
    assert grace.past(5) == 12


def test_what_is_taken_back_never_counts() -> None:
    grace = Grace(GRACE)
    for position in (10, 20, 30):
        grace.say(position, position)
    grace.say(15, 40)
    assert grace.past(GRACE + 10) == 10
    assert grace.past(GRACE + 39) == 10
    assert grace.past(GRACE + 40) == 15
    grace.say(5, GRACE + 50)
    assert grace.past(GRACE + 50) == 5
    grace.say(0, GRACE + 50)
    assert grace.past(10 * GRACE) == 0


def test_the_same_again_does_not_begin_anew() -> None:
    grace = Grace(GRACE)
    grace.say(10, 0)
    for now in range(0, GRACE, 1_000):
        grace.say(10, now)
    assert grace.past(GRACE) == 10


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 50)), max_size=200))
def test_it_is_never_early_hardly_late_and_bounded(steps: list[tuple[int, int]]) -> None:
    grace, now, position = Grace(GRACE), 0, 0
    said = [(0, 0)]
    for elapsed, more in steps:
        now, position = now + elapsed, position + more
        grace.say(position, now)
        said.append((now, position))
        past = grace.past(now)
        assert past <= max((at for since, at in said if since <= now - GRACE), default=0)
        late = GRACE + GRACE // STEPS + 20_000
        assert past >= max((at for since, at in said if since <= now - late), default=0)
        assert len(grace._steps) <= 4 * STEPS  # pyright: ignore[reportPrivateUsage]


def test_what_is_said_within_a_step_counts_with_its_last() -> None:
    """Of what is said within a sixteenth of the grace the newest is kept, in the place of what was."""
    step = GRACE // STEPS
    grace = Grace(GRACE)
    for position, now in ((10, step), (20, 2 * step), (30, 2 * step + 1)):
        grace.say(position, now)
    assert grace.past(2 * step + GRACE) == 20, "each is as far from the one before it as a step, or the first"
    grace = Grace(GRACE)
    for position, now in ((10, 0), (20, step), (30, 2 * step - 2), (40, 2 * step - 1)):
        grace.say(position, now)
    assert grace.past(2 * step - 2 + GRACE) == 20
    assert grace.past(2 * step - 1 + GRACE) == 40


def test_what_is_taken_back_leaves_the_time_of_what_it_goes_back_to() -> None:
    grace = Grace(GRACE)
    grace.say(10, 1_000)
    grace.say(4, 2_000)
    assert grace.past(2_000 + GRACE - 1) == 0
    assert grace.past(2_000 + GRACE) == 4
    grace.say(3, 9_000)
    assert grace.past(2_000 + GRACE) == 3, "it was known to reach so far all the time"
    grace.say(3, 10_000)
    grace.say(7, 20_000)
    assert grace.past(20_000 + GRACE - 1) == 3
    assert grace.past(20_000 + GRACE) == 7


def test_what_is_said_as_a_step_is_over_takes_nothings_place() -> None:
    step, first = GRACE // STEPS, 100
    grace = Grace(GRACE)
    grace.say(10, first)
    grace.say(20, first + 1)
    grace.say(20, first + 2)  # the same again
    assert grace.past(first + 1 + GRACE) == 20
    grace = Grace(GRACE)
    for position, now in ((10, first), (20, first + 1), (30, first + step)):
        grace.say(position, now)
    assert grace.past(first + 1 + GRACE) == 20
    grace = Grace(GRACE)
    for position, now in ((10, first), (20, first + 1), (30, first + step - 1)):
        grace.say(position, now)
    assert grace.past(first + 1 + GRACE) == 10
