"""When a message that failed comes again, as a listener says it."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any

import pytest

from lakemq.client import ConsumeLater, InvalidRequest, WrongType


def test_a_level_has_a_name() -> None:
    assert ConsumeLater(level=3).delay_level == 3
    assert ConsumeLater(delay_level=3).delay_level == 3
    assert (ConsumeLater().delay_level, ConsumeLater(reason="why").reason) == (0, "why")


@pytest.mark.parametrize(
    ("delay", "level"),
    [(timedelta(0), 1), (timedelta(seconds=1), 1), (timedelta(seconds=1, microseconds=1), 2), (timedelta(hours=2), 18)],
)
def test_a_delay_is_the_first_of_rocketmqs_levels_that_is_no_shorter(delay: timedelta, level: int) -> None:
    assert ConsumeLater(delay=delay).delay_level == ConsumeLater(delay).delay_level == level


def test_a_number_without_a_name_is_a_level_and_warned_of_as_it_looks_like_seconds() -> None:
    with pytest.warns(DeprecationWarning, match=r"ConsumeLater\(10\) is delay level 10, and not 10 seconds") as told:
        assert ConsumeLater(10, "busy").delay_level == 10
    assert told[0].filename == __file__


def test_what_looks_like_no_time_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dead = ConsumeLater(-1, "no such customer")
    assert (dead.delay_level, dead.reason) == (-1, "no such customer")


@pytest.mark.parametrize("given", [{"level": 1, "delay": timedelta(1)}, {"level": 1, "delay_level": 1}])
def test_one_of_them_is_enough(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="one of them"):
        ConsumeLater(**given)


def test_what_no_broker_takes_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="0 to 7,200 s"):
        ConsumeLater(delay=timedelta(hours=3))
    with pytest.raises(InvalidRequest, match="0 to 7,200 s"):
        ConsumeLater(delay=timedelta(seconds=-1))
    for given in ({"level": "3"}, {"level": True}, {"level": 10**30}, {"delay": 10}):
        with pytest.raises(WrongType):
            ConsumeLater(**given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        ConsumeLater(-1, "why", "more")
