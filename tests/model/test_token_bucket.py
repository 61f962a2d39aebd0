"""So many at once, and so many a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.token_bucket import TokenBucket, TokenBuckets


@given(st.lists(st.integers(0, 20), max_size=100))
def test_never_more_is_taken_than_the_burst_and_what_came_since(pauses_tenth_s: list[int]) -> None:
    bucket, now_s, taken = TokenBucket(5, 2.0), 0.0, 0
    for pause in pauses_tenth_s:
        now_s += pause / 10
        taken += bucket.take(now_s)
        assert taken <= 5 + 2.0 * now_s + 1e-6


def test_a_clock_that_goes_back_takes_and_gives_nothing() -> None:
    bucket = TokenBucket(2, 1.0, 100.0)
    assert [bucket.take(now_s) for now_s in (100.0, 50.0, 50.0)] == [True, True, False]
    assert bucket.is_full(10.0), "nobody knows"
    assert not bucket.is_full(50.5)
    assert bucket.is_full(52.0)


def test_each_key_has_its_own_and_a_full_one_gives_way() -> None:
    buckets = TokenBuckets(1, 1.0, keys_max=2)
    assert [buckets.take(key, 0.0) for key in "aab"] == [True, False, True]
    assert len(buckets) == 2
    assert buckets.take("c", 5.0), "by then the oldest is full again"
    assert len(buckets) == 2


def test_as_long_as_none_is_full_newcomers_share_one() -> None:
    buckets = TokenBuckets(1, 0.001, keys_max=1)
    assert [buckets.take(key, 0.0) for key in "abc"] == [True, True, False]
    assert len(buckets) == 1
    assert not buckets.take("a", 1.0)
