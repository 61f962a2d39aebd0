"""Numbers and times as people read them."""

from __future__ import annotations

import math

import pytest

from lakemq.model.written import NOT_KNOWN, count, duration, moment, several, share, size


@pytest.mark.parametrize("number", [None, math.nan, math.inf])
def test_a_number_that_is_not_known_is_a_dash(number: float | None) -> None:
    assert count(number) == NOT_KNOWN


def test_numbers_have_commas_and_times_are_utc() -> None:
    assert count(12_345.4) == "12,345"
    assert [several(each, "message") for each in (0, 1, 1_234)] == ["0 messages", "1 message", "1,234 messages"]
    assert moment(1_800_000_000_001) == "2027-01-15 08:00:00.001"


@pytest.mark.parametrize("ms", [None, -1, 253_402_300_800_000])
def test_a_time_that_no_date_can_express_is_a_dash(ms: float | None) -> None:
    assert moment(ms) == NOT_KNOWN


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((None, NOT_KNOWN), (math.nan, NOT_KNOWN), (math.inf, "never"), (119, "119 s"), (120, "2 min")),
        *((7_200, "2 h"), (47.9 * 3_600, "48 h"), (145.2 * 3_600, "6 d")),
    ],
)
def test_a_duration_has_the_largest_unit_that_gives_two(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_a_share_is_in_percent() -> None:
    assert [share(each) for each in (None, 0.0, 0.876)] == [NOT_KNOWN, "0%", "88%"]


@pytest.mark.parametrize(
    ("count_bytes", "said"),
    [
        *((0, "0 bytes"), (2_047, "2047 bytes"), (2_048, "2.0 KiB"), (16 * 2**20, "16.0 MiB")),
        *((81_783_881_728, "76.2 GiB"), (3 * 2**40, "3.0 TiB")),
    ],
)
def test_sizes_have_one_decimal_in_a_unit_that_fits(count_bytes: int, said: str) -> None:
    assert size(count_bytes) == said
