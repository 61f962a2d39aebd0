"""What of many refusals is written down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.network import network_of
from lakemq.model.noted import Noted, Sieve
from lakemq.model.token_bucket import TokenBuckets
from lakemq.web.failures import Failures


def test_alike_ones_are_said_together() -> None:
    sieve = Sieve[str](each_s=60)
    assert sieve.note("a", 0) == Noted(1, 0)
    assert [sieve.note("a", 1 + number) for number in range(9)] == [None] * 9
    assert sieve.note("b", 5) == Noted(1, 0)
    assert sieve.note("a", 60) == Noted(10, 0)


def test_what_was_counted_is_said_after_its_interval_though_nothing_else_comes() -> None:
    sieve = Sieve[str](each_s=60)
    assert [sieve.note("a", number / 100, "a", f"a{number}") for number in range(300)] == [Noted(1, 0), *[None] * 299]
    assert sieve.note("b", 1, "b", "b0") == Noted(1, 0)
    assert sieve.due(59) == []
    assert sieve.due(61) == [("a299", Noted(299, 0))]
    assert sieve.note("a", 62, "a", "more") is None, "there is one of its kind in an interval"
    assert sieve.due(120) == []
    assert sieve.due(120, ends=True) == [("more", Noted(1, 0))]
    assert sieve.due(1_000, ends=True) == []
    assert sieve.note("a", 1_001, "a", "new") == Noted(1, 0)


def test_what_was_missed_is_said_with_the_last_of_it() -> None:
    sieve = Sieve[str](burst=3, per_s=1)
    for number in range(7):
        sieve.note(number, 0.0, number, f"{number}")
    assert sieve.due(0.5) == [], "there is no room yet"
    assert sieve.due(2.0) == [("6", Noted(1, 3))]
    assert sieve.due(20.0) == []
    sieve.give_back(Noted(2, 1))
    assert sieve.due(30.0) == [], "nothing is known of them"
    sieve.give_back(Noted(1, 0), "x")
    assert sieve.due(40.0) == [("x", Noted(1, 3))]


def test_what_is_counted_is_said_as_there_is_room() -> None:
    sieve = Sieve[int](burst=5, per_s=1)
    for number in [*range(5), *range(5)]:
        sieve.note(number, 0.0, number, number)
    said = [sieve.due(now_s) for now_s in (63.0, 63.0, 64.0)]
    assert [[what for what, _ in each] for each in said] == [[0, 1, 2, 3, 4], [], []]
    sieve = Sieve[int](each_s=3, burst=5, per_s=1)
    for number in [*range(5), *range(5)]:
        sieve.note(number, 0.0, number, number)
    assert [[what for what, _ in sieve.due(now_s)] for now_s in (3.0, 3.0, 5.0)] == [[0, 1, 2], [], [3, 4]]


def test_a_flood_of_different_ones_is_counted() -> None:
    sieve = Sieve[str](burst=3, per_s=1)
    assert [sieve.note(number, 0.0) is not None for number in range(5)] == [True] * 3 + [False] * 2
    assert sieve.note("later", 10.0) == Noted(1, 2)


def test_a_clock_that_goes_back_holds_nothing_up() -> None:
    sieve = Sieve[str](each_s=60)
    assert sieve.note("a", 1_000) == Noted(1, 0)
    assert sieve.note("a", 10) == Noted(1, 0)


def test_what_could_not_be_written_is_said_later() -> None:
    sieve = Sieve[str]()
    noted = sieve.note("a", 0)
    assert noted is not None
    sieve.give_back(noted)
    assert sieve.note("b", 0) == Noted(1, 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=200))
def test_none_is_passed_over_in_silence(refusals: list[tuple[int, int]]) -> None:
    sieve = Sieve[int](each_s=20, keys_max=2, burst=3, per_s=0.5)
    now, said = 0, 0
    for kind, seconds in refusals:
        now += seconds
        noted = sieve.note(kind, now, who=kind, what=kind)
        said += 0 if noted is None else noted.times + noted.missed
        said += sum(each.times + each.missed for _, each in sieve.due(now)) if seconds % 3 == 0 else 0
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


def test_one_alone_does_not_take_the_room_of_others() -> None:
    sieve = Sieve[str]()
    written = [sieve.note(("mallory", number), number / 1_000, "mallory") for number in range(1_000)]
    written += [sieve.note(("alice", 1), 1.0, "alice")]
    assert written[-1] is not None
    noted = [each for each in written if each is not None]
    assert len(noted) <= 50
    assert sum(each.times + each.missed for each in noted) == 1_001, "what was missed is said"


def test_addresses_of_one_network_of_ipv6_are_one() -> None:
    failures = Failures(burst=2, per_s=1)
    tried = [failures.note(f"2001:db8:0:1::{number:x}", 0.0) for number in range(4)]
    assert tried == [False, False, True, True]
    assert failures.note("2001:db8:0:2::1", 0.0) is False
    assert [network_of(each) for each in ("10.0.0.1", "::ffff:10.0.0.1", None, "", "unix:", "::1", "fe80::1%eth0")] == [
        "10.0.0.1", "10.0.0.1", None, "", "unix:", "::/64", "fe80::/64",
    ]  # fmt: skip


def test_who_has_many_addresses_wins_nobody_new_tries() -> None:
    """However many come, who waits is not forgotten, and those for whom there is no room share what one has."""
    failures = Failures(burst=2, per_s=1, addresses_max=10)
    for number in range(10):
        assert [failures.note(f"10.0.0.{number}", 0.0) for _ in range(3)] == [False, False, True]
    assert [failures.note(f"10.0.1.{number}", 0.5) for number in range(100)].count(False) == 2
    assert all(failures.note(f"10.0.0.{number}", 0.5) for number in range(10))
    assert failures.note("10.0.2.1", 100.0) is False
    assert failures.note("10.0.0.9", 100.0) is False


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-50, 50)), max_size=100))
def test_buckets_are_bounded_and_a_clock_that_goes_anywhere_hurts_nobody(takes: list[tuple[int, int]]) -> None:
    buckets, now = TokenBuckets(3, 1, 4), 1_000
    for key, seconds in takes:
        now += seconds
        buckets.take(key, now)
        assert len(buckets) <= 4
    later = [buckets.take(key, now + 10_000 + key) for key in range(7)]
    assert all(later)


def test_what_is_said_of_others_is_said_where_there_are_some() -> None:
    assert Noted(1, 0).text == ""
    assert Noted(3, 0).text == " (3 times since it was last said)"
    assert Noted(3, 2).text == " (3 times since it was last said) (2 others were not said)"
