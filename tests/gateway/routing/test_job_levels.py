"""What jobs are told of their loggers' levels, and for how long."""

from __future__ import annotations

import pytest

from lakemq.gateway.routing.job_levels import ALIVE_MS, AS_BEFORE_MS, FOR_MS_MIN, PROCESSES_MAX, JobLevels
from lakemq.logs.levels import NAMES_MAX
from lakemq.model.errors import InvalidRequest
from lakemq.testing.clocks import ManualClock

LOGGER = "lakemq.jobs.lake"


def test_what_holds_is_told_with_the_time_that_is_left_and_then_no_more() -> None:
    clock = ManualClock()
    levels = JobLevels(clock)
    assert levels.wanted() is None
    first = levels.change({LOGGER: "DEBUG"}, FOR_MS_MIN)
    clock.time_ms += 4_000
    second = levels.change({"lakemq.jobs": "ERROR"})
    assert first != second
    told = {LOGGER: "DEBUG", "lakemq.jobs": "ERROR"}
    assert levels.wanted() == {"change": second, "levels": told, "for_ms": {LOGGER: FOR_MS_MIN - 4_000}}
    clock.time_ms += FOR_MS_MIN
    assert levels.wanted() == {"change": second, "levels": {"lakemq.jobs": "ERROR"}, "for_ms": {}}
    third = levels.change({"lakemq.jobs": None})
    assert levels.wanted() == {"change": third, "levels": {"lakemq.jobs": None}, "for_ms": {}}
    clock.time_ms += AS_BEFORE_MS
    assert levels.wanted() is None


def test_so_many_loggers_are_told_of_at_once_and_nothing_of_what_is_refused() -> None:
    clock = ManualClock()
    levels = JobLevels(clock)
    levels.change({f"lakemq.x{number}": "INFO" for number in range(NAMES_MAX)}, FOR_MS_MIN)
    before = levels.wanted()
    with pytest.raises(InvalidRequest, match="at most"):
        levels.change({LOGGER: "DEBUG"})
    assert levels.wanted() == before
    clock.time_ms += FOR_MS_MIN
    levels.change({LOGGER: "DEBUG"})
    for wrong in ({}, {"aiohttp": "DEBUG"}, {"lakemq.": "DEBUG"}, {"lakemq.A": "DEBUG"}, {LOGGER: "LOUD"}):
        with pytest.raises(InvalidRequest):
            levels.change({"lakemq.jobs": "DEBUG", **wrong} if wrong else wrong)
    told = levels.wanted()
    assert told is not None
    assert told["levels"] == {LOGGER: "DEBUG"}


def test_processes_are_shown_as_long_as_they_are_heard_of() -> None:
    clock = ManualClock()
    levels = JobLevels(clock)
    for number in range(PROCESSES_MAX + 3):
        levels.hear({"process": f"p{number}"})
    assert len(levels.describe()) == PROCESSES_MAX
    clock.time_ms += ALIVE_MS
    levels.hear({"process": "p3"})
    assert len(levels.describe()) == PROCESSES_MAX
    clock.time_ms += 1
    assert levels.describe() == [{"process": "p3"}]
