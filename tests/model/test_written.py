"""Numbers and times as people read them."""

from __future__ import annotations

import math

import pytest

from lakemq.model.written import NOT_KNOWN, count, moment


@pytest.mark.parametrize("number", [None, math.nan, math.inf])
def test_a_number_that_is_not_known_is_a_dash(number: float | None) -> None:
    assert count(number) == NOT_KNOWN


def test_numbers_have_commas_and_times_are_utc() -> None:
    assert count(12_345.4) == "12,345"
    assert moment(1_800_000_000_001) == "2027-01-15 08:00:00.001"


@pytest.mark.parametrize("ms", [None, -1, 253_402_300_800_000])
def test_a_time_that_no_date_can_express_is_a_dash(ms: float | None) -> None:
    assert moment(ms) == NOT_KNOWN
