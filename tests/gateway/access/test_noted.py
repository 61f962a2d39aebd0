"""What of many refusals is written down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.gateway.access.noted import Noted, Sieve
from lakemq.web.failures import Failures


def test_alike_ones_are_said_together() -> None:
    sieve = Sieve(each_s=60)
    assert sieve.note("a", 0) == Noted(1, 0)
    assert [sieve.note("a", 1 + number) for number in range(9)] == [None] * 9
    assert sieve.note("b", 5) == Noted(1, 0)
    assert sieve.note("a", 60) == Noted(10, 0)


def test_a_flood_of_different_ones_is_counted() -> None:
    sieve = Sieve(burst=3, per_s=1)
    assert [sieve.note(number, 0.0) is not None for number in range(5)] == [True] * 3 + [False] * 2
    assert sieve.note("later", 10.0) == Noted(1, 2)


def test_a_clock_that_goes_back_holds_nothing_up() -> None:
    sieve = Sieve(each_s=60)
    assert sieve.note("a", 1_000) == Noted(1, 0)
    assert sieve.note("a", 10) == Noted(1, 0)


def test_what_could_not_be_written_is_said_later() -> None:
    sieve = Sieve()
    noted = sieve.note("a", 0)
    assert noted is not None
    sieve.give_back(noted)
    assert sieve.note("b", 0) == Noted(1, 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=200))
def test_none_is_passed_over_in_silence(refusals: list[tuple[int, int]]) -> None:
    sieve = Sieve(each_s=20, keys_max=2, burst=3, per_s=0.5)
    now, said = 0, 0
    for kind, seconds in refusals:
        now += seconds
        noted = sieve.note(kind, now)
        said += 0 if noted is None else noted.times + noted.missed
    assert said <= len(refusals)
    # Later each kind comes once more, and by then all that came before has been said.
    for number, kind in enumerate([*range(6), *range(6)]):
        noted = sieve.note(kind, now + 100 * (number + 1))
        assert noted is not None
        said += noted.times + noted.missed
    assert said == len(refusals) + 12


def test_who_failed_often_waits_and_no_other_does() -> None:
    failures = Failures(burst=2, per_s=1, addresses_max=2)
    assert [failures.note("a", 0.0) for _ in range(4)] == [False, False, True, True]
    assert failures.note("b", 0.0) is False
    assert failures.note("a", 5.0) is False
    assert failures.note("c", 5.0) is False  # of so many addresses the oldest is forgotten
    assert failures.note(None, 5.0) is False


def test_a_clock_that_goes_back_makes_nobody_wait() -> None:
    failures = Failures(burst=3, per_s=1)
    assert [failures.note("a", now_s) for now_s in (10_000.0, 10.0, 11.0)] == [False] * 3
