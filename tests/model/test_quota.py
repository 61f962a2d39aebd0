"""What a bucket lets through, and what it promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import InvalidRequest
from lakemq.model.quota import (
    BURST_S,
    CONNECTIONS_MAX,
    NONE,
    PER_S_MAX,
    PER_S_MIN,
    Bucket,
    Quotas,
    in_seconds,
    parse_quotas,
)

rates = st.one_of(st.integers(1, 10**9), st.integers(1, 10**6).map(lambda thousandths: thousandths / 1000))
steps = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 10**7)), max_size=60)


def burst_of(rate: float) -> float:
    return max(rate * BURST_S, 1)


@given(rates, st.lists(st.integers(0, 2_000), max_size=200))
def test_never_more_requests_than_the_rate_and_a_burst_go(rate: float, pauses_ms: list[int]) -> None:
    bucket, now_ms, went = Bucket(rate, 0, whole=True), 0, 0
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        if not bucket.wait_ms(now_ms):
            bucket.take(1, now_ms)
            went += 1
        assert went <= rate * now_ms / 1000 * (1 + 1e-9) + burst_of(rate)


@given(rates, steps)
def test_whoever_goes_finds_no_more_bytes_taken_than_the_rate_and_a_burst(
    rate: float, asked: list[tuple[int, int]]
) -> None:
    bucket, now_ms, taken = Bucket(rate, 0, whole=False), 0, 0
    for pause_ms, size in asked:
        now_ms += pause_ms
        if not bucket.wait_ms(now_ms):
            assert taken <= rate * now_ms / 1000 * (1 + 1e-9) + burst_of(rate)
            bucket.take(size, now_ms)
            taken += size


@given(rates, steps, st.booleans())
def test_after_the_wait_that_it_says_one_goes_and_not_a_millisecond_before(
    rate: float, asked: list[tuple[int, int]], whole: bool
) -> None:
    bucket, now_ms = Bucket(rate, 0, whole), 0
    for pause_ms, amount in asked:
        now_ms += pause_ms
        bucket.take(amount, now_ms)
        wait_ms = bucket.wait_ms(now_ms)
        if wait_ms:
            assert bucket.wait_ms(now_ms + wait_ms - 1) == 1
            now_ms += wait_ms
        assert bucket.wait_ms(now_ms) == 0
        assert in_seconds(wait_ms) * 1000 >= max(wait_ms, 1000)


def test_what_is_larger_than_the_bucket_goes_into_debt_that_is_paid_first() -> None:
    bucket = Bucket(10, 0, whole=False)
    assert bucket.wait_ms(0) == 0
    bucket.take(120, 0)
    assert bucket.wait_ms(0) == 10_001, "100 are owed, and then there must be something"
    assert bucket.wait_ms(10_001) == 0
    assert in_seconds(10_001) == 11


def test_a_clock_that_goes_back_fills_nothing() -> None:
    bucket = Bucket(1, 10_000, whole=True)
    bucket.take(BURST_S, 10_000)
    assert bucket.wait_ms(9_000) == 1_000
    assert bucket.wait_ms(11_000) == 0


def test_another_rate_keeps_what_is_owed_and_no_more_than_its_own_burst() -> None:
    bucket = Bucket(1_000, 0, whole=True)
    assert bucket.change(1, 0).wait_ms(0) == 0
    for _ in range(BURST_S):
        bucket.take(1, 0)
    assert bucket.wait_ms(0) == 1_000
    bucket.take(9, 0)
    assert bucket.wait_ms(0) == 10_000
    assert bucket.change(10, 0).wait_ms(0) == 1_000


def test_the_lowest_rate_lets_one_through_at_a_time() -> None:
    bucket = Bucket(PER_S_MIN, 0, whole=True)
    bucket.take(1, 0)
    assert bucket.wait_ms(0) == 1_000_000


def test_what_a_user_doesnt_have_of_its_own_is_the_default() -> None:
    own = Quotas(requests_per_s=5, connections=0)
    assert own.over(Quotas(1, 2, 3)) == Quotas(5, 2, 0)
    assert Quotas().over(NONE) == NONE
    assert not NONE.limits
    assert Quotas(0, 0, 1).limits


def test_quotas_are_read_as_they_are_written_and_what_is_not_said_stays() -> None:
    for quotas in (Quotas(), NONE, Quotas(0.5, 2**30, 7), Quotas(None, PER_S_MAX, CONNECTIONS_MAX)):
        assert parse_quotas(quotas.fields()) == quotas
    assert parse_quotas({"bytes_per_s": None, "connections": 3}, Quotas(1, 2, 4)) == Quotas(1, None, 3)
    assert parse_quotas({"of_a_later_version": []}, NONE) == NONE
    assert repr(parse_quotas({"requests_per_s": 100.0}).requests_per_s) == "100"


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        "x",
        {"requests_per_s": -1},
        {"requests_per_s": "1"},
        {"requests_per_s": True},
        {"requests_per_s": PER_S_MIN / 2},
        {"bytes_per_s": PER_S_MAX + 1},
        {"bytes_per_s": float("nan")},
        {"bytes_per_s": float("inf")},
        {"connections": 1.5},
        {"connections": False},
        {"connections": -1},
        {"connections": CONNECTIONS_MAX + 1},
    ],
)
def test_what_is_no_quota_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidRequest, match="quota"):
        parse_quotas(fields)
