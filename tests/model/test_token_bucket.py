"""So many at once, and so many a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.token_bucket import TokenBucket, TokenBuckets

BURST_S = 2
rates = st.one_of(st.integers(1, 10**9), st.integers(1, 10**6).map(lambda thousandths: thousandths / 1000))
steps = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 10**7)), max_size=60)


def bucket_of(rate: float, whole: bool, now_ms: int = 0) -> TokenBucket:
    return TokenBucket(rate * BURST_S, rate, now_ms, whole=whole)


def least_of(rate: float) -> float:
    """Its burst: one always goes."""
    return max(rate * BURST_S, 1)


@given(rates, st.lists(st.integers(0, 2_000), max_size=200))
def test_never_more_requests_than_the_rate_and_a_burst_go(rate: float, pauses_ms: list[int]) -> None:
    bucket, now_ms, went = bucket_of(rate, whole=True), 0, 0
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        if not bucket.wait_ms(now_ms):
            bucket.take(1, now_ms)
            went += 1
        assert went <= rate * now_ms / 1000 * (1 + 1e-9) + least_of(rate)


@given(rates, steps)
def test_whoever_goes_finds_no_more_bytes_taken_than_the_rate_and_a_burst(
    rate: float, asked: list[tuple[int, int]]
) -> None:
    bucket, now_ms, taken = bucket_of(rate, whole=False), 0, 0
    for pause_ms, size in asked:
        now_ms += pause_ms
        if not bucket.wait_ms(now_ms):
            assert taken <= rate * now_ms / 1000 * (1 + 1e-9) + least_of(rate)
            bucket.take(size, now_ms)
            taken += size


@given(rates, steps, st.booleans())
def test_after_the_wait_that_it_says_one_goes_and_not_a_millisecond_before(
    rate: float, asked: list[tuple[int, int]], whole: bool
) -> None:
    bucket, now_ms = bucket_of(rate, whole), 0
    for pause_ms, amount in asked:
        now_ms += pause_ms
        bucket.take(amount, now_ms)
        wait_ms = bucket.wait_ms(now_ms)
        if wait_ms:
            assert bucket.wait_ms(now_ms + wait_ms - 1) == 1
            now_ms += wait_ms
        assert bucket.wait_ms(now_ms) == 0


def test_what_is_larger_than_the_bucket_goes_into_debt_that_is_paid_first() -> None:
    bucket = bucket_of(10, whole=False)
    assert bucket.wait_ms(0) == 0
    bucket.take(120, 0)
    assert bucket.wait_ms(0) == 10_001, "100 are owed, and then there must be something"
    assert bucket.wait_ms(10_001) == 0


def test_a_clock_that_goes_back_fills_nothing_and_what_comes_then_does() -> None:
    bucket = bucket_of(1, True, 10_000)
    bucket.take(BURST_S, 10_000)
    assert bucket.wait_ms(9_000) == 1_000
    assert bucket.wait_ms(9_500) == 500
    assert bucket.wait_ms(10_000) == 0


def test_another_rate_keeps_what_is_owed_and_no_more_than_its_own_burst() -> None:
    bucket = bucket_of(1_000, whole=True)
    assert bucket.change(BURST_S, 1, 0).wait_ms(0) == 0
    for _ in range(BURST_S):
        bucket.take(1, 0)
    assert bucket.wait_ms(0) == 1_000
    bucket.take(9, 0)
    assert bucket.wait_ms(0) == 10_000
    assert bucket.change(10 * BURST_S, 10, 0).wait_ms(0) == 1_000


def test_the_lowest_rate_lets_one_through_at_a_time() -> None:
    bucket = bucket_of(0.001, whole=True)
    bucket.take(1, 0)
    assert bucket.wait_ms(0) == 1_000_000


def test_one_is_taken_where_there_is_one() -> None:
    bucket = TokenBucket(2, 1, 100_000)
    assert [bucket.take_one(now_ms) for now_ms in (100_000, 50_000, 50_000)] == [True, True, False]
    assert bucket.is_full(10_000), "nobody knows"
    assert not bucket.is_full(50_500)
    assert bucket.is_full(52_000)


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
