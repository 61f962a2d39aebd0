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
