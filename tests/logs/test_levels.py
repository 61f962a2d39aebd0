"""Levels that are changed while a process runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from lakemq.logs.levels import FOR_MS_MAX, ROOT, LogLevels
from lakemq.model.errors import InvalidRequest

PART = "lakemq.logs.levels"


class Levels(LogLevels):
    """With a clock that is set by hand."""

    def __init__(self) -> None:
        self.clock_s = 0.0
        super().__init__(lambda: self.clock_s)


@pytest.fixture
def levels() -> Iterator[Levels]:
    before = logging.getLogger(ROOT).level
    made = Levels()
    made.begin("INFO")
    yield made
    made.change({ROOT: None, PART: None})
    logging.getLogger(ROOT).setLevel(before)


def test_what_is_changed_for_a_while_goes_back(levels: Levels) -> None:
    levels.change({PART: "DEBUG"}, 5_000)
    levels.change({ROOT: "WARNING"})
    assert levels.describe() == {"levels": {ROOT: "WARNING", PART: "DEBUG"}, "back_in_ms": {PART: 5_000}}
    assert logging.getLogger(PART).isEnabledFor(logging.DEBUG)
    levels.clock_s = 4.9
    levels.expire()
    assert logging.getLogger(PART).isEnabledFor(logging.DEBUG)
    levels.clock_s = 5.0
    levels.expire()
    assert not logging.getLogger(PART).isEnabledFor(logging.INFO), "it is as the one above it"
    assert levels.describe() == {"levels": {ROOT: "WARNING"}, "back_in_ms": {}}


def test_what_was_changed_is_put_back_by_hand_too(levels: Levels) -> None:
    levels.change({ROOT: "DEBUG", PART: "ERROR"}, 1_000)
    levels.change({ROOT: None, PART: None})
    assert levels.describe() == {"levels": {ROOT: "INFO"}, "back_in_ms": {}}


def test_a_later_change_is_not_ended_by_an_earlier_ones_end(levels: Levels) -> None:
    levels.change({PART: "DEBUG"}, 1_000)
    levels.change({PART: "DEBUG"})
    levels.clock_s = 10.0
    assert levels.describe()["levels"] == {ROOT: "INFO", PART: "DEBUG"}


@pytest.mark.parametrize(
    ("wanted", "for_ms", "said"),
    [
        ({}, None, "no level"),
        ({"root": "DEBUG"}, None, "no logger 'root'"),
        ({"aiohttp": "DEBUG"}, None, "no logger 'aiohttp'"),
        ({"lakemq.logs.level": "DEBUG"}, None, f"did you mean {PART}"),
        ({"lakemqx": "DEBUG"}, None, "no logger"),
        ({ROOT: "debug"}, None, "no level"),
        ({ROOT: "NOTSET"}, None, "no level"),
        ({ROOT: "DEBUG"}, 0, "for_ms is 0"),
        ({ROOT: "DEBUG"}, FOR_MS_MAX + 1, "for_ms is"),
        ({ROOT: "DEBUG", "lakemq.none": "DEBUG"}, None, "no logger"),
    ],
)
def test_what_is_wrong_changes_nothing(
    levels: Levels, wanted: dict[str, str | None], for_ms: int | None, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        levels.change(wanted, for_ms)
    assert levels.describe()["levels"] == {ROOT: "INFO"}
    assert "lakemq.none" not in logging.root.manager.loggerDict, "asking makes no logger"
