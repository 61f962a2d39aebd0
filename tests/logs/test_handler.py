"""A flood of lines is counted, and what was counted is said."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from lakemq.logs.handler import ALIKE_MAX, ALIKE_S, PLACE_MAX, PLACE_S, Handler


class Log:
    """A logger with a handler whose clock is set by hand."""

    def __init__(self, logger: logging.Logger) -> None:
        self.now_s = 0.0
        self.stream = io.StringIO()
        self.handler = Handler(lambda: self.now_s, self.stream)
        self.logger = logger
        logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    logger = logging.getLogger("tests.logs.flood")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    made = Log(logger)
    yield made
    logger.removeHandler(made.handler)


def test_of_lines_that_are_alike_so_many_are_written_and_the_others_counted(log: Log) -> None:
    for _ in range(1_000):
        log.logger.warning("no room for %s", "orders")
    assert log.lines[:-1] == ["no room for orders"] * (ALIKE_MAX - 1)
    assert log.lines[-1] == f"no room for orders ({ALIKE_MAX} of this within {ALIKE_S:.0f} s: more are counted)"
    log.logger.warning("another")
    assert log.lines[-1] == "another"
    log.now_s = ALIKE_S
    log.logger.warning("no room for orders")
    assert log.lines[-2:] == [
        f"{1_000 - ALIKE_MAX} more of this within {ALIKE_S:.0f} s: no room for orders",
        "no room for orders",
    ]


def test_what_was_counted_is_said_as_the_process_ends(log: Log) -> None:
    for _ in range(ALIKE_MAX + 3):
        log.logger.warning("no room")
    log.handler.close()
    assert log.lines[-1] == f"3 more of this within {ALIKE_S:.0f} s: no room"


def test_a_flood_whose_lines_differ_is_one_too(log: Log) -> None:
    for number in range(PLACE_MAX + 10):
        log.logger.warning("refused to %d", number)
    assert len(log.lines) == PLACE_MAX
    assert log.lines[-1].endswith(f"({PLACE_MAX} such lines within {PLACE_S:.0f} s: more are counted)")
    log.now_s = PLACE_S
    log.logger.warning("another")
    assert log.lines[-2:] == [f"10 more of this within {PLACE_S:.0f} s: refused to %d", "another"]


def test_what_was_asked_for_to_find_a_fault_is_all_there(log: Log) -> None:
    for number in range(PLACE_MAX + 10):
        log.logger.debug("asked %d", number)
    assert len(log.lines) == PLACE_MAX + 10


def test_other_handlers_see_a_line_as_it_was(log: Log) -> None:
    seen: list[str] = []
    other = logging.Handler()
    other.emit = lambda record: seen.append(record.getMessage())
    log.logger.addHandler(other)
    try:
        for _ in range(ALIKE_MAX + 1):
            log.logger.warning("no room for %s", "orders")
    finally:
        log.logger.removeHandler(other)
    assert seen == ["no room for orders"] * (ALIKE_MAX + 1)


def test_a_stderr_that_is_gone_stops_nobody(log: Log) -> None:
    log.stream.close()
    log.logger.warning("nobody reads this")
    log.handler.flush()
    log.handler.close()
