"""Delay levels and due times."""

from __future__ import annotations

import pytest

from lakemq.model.delay import DELAY_MS_MAX, DelayState, delay_of_level, due_time, level_of_delay, parse_levels

LEVELS = parse_levels("1s 5s 10s 30s 1m 2h 1d 500ms")


def test_levels_are_read_as_rocketmq_writes_them() -> None:
    text = "1s 5s 10s 30s 1m 2h 1d 500ms"
    assert parse_levels(text) == (1_000, 5_000, 10_000, 30_000, 60_000, 7_200_000, 86_400_000, 500)


def test_there_may_be_one_level_or_a_hundred_of_a_year_each() -> None:
    assert parse_levels("366d") == (DELAY_MS_MAX,)
    assert parse_levels("1s " * 100) == (1_000,) * 100
    with pytest.raises(ValueError, match="'" + "x" * 50 + "'"):
        parse_levels("x" * 60)


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "-1s", "1s,5s", "1w", "367d", "1s " * 101])
def test_levels_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"delay|year|levels"):
        parse_levels(text)


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1_000), (5, 60_000), (8, 500), (9, 500), (2**31, 500)])
def test_above_the_highest_level_is_the_highest(level: int, delay_ms: int) -> None:
    assert delay_of_level(level, LEVELS) == delay_ms


@pytest.mark.parametrize(
    ("delay_ms", "level"), [(0, 8), (501, 1), (1_000, 1), (1_001, 2), (7_200_000, 6), (7_200_001, 7)]
)
def test_a_delay_gets_the_shortest_level_that_is_no_shorter(delay_ms: int, level: int) -> None:
    assert level_of_delay(delay_ms, LEVELS) == level


def test_a_delay_that_is_longer_than_all_levels_has_none() -> None:
    assert level_of_delay(86_400_001, LEVELS) is None


def test_a_message_is_due_after_its_delay_or_at_its_time() -> None:
    assert due_time(100, LEVELS, level=2) == 5_100
    assert due_time(100, LEVELS, delay_ms=7_300) == 7_400
    assert due_time(100, LEVELS, deliver_at_ms=101) == 101
    assert due_time(100, LEVELS, delay_ms=DELAY_MS_MAX) == DELAY_MS_MAX + 100


def test_without_a_delay_or_with_a_time_that_is_past_it_is_due_at_once() -> None:
    assert due_time(100, LEVELS) is None
    assert due_time(100, LEVELS, level=0) is None
    assert due_time(100, LEVELS, delay_ms=0) is None
    assert due_time(100, LEVELS, deliver_at_ms=100) is None


def test_the_states_have_letters() -> None:
    assert "".join(DelayState) == "WDVRML"
