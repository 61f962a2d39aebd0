"""Whether another driver has taken the lake: looked at now and then, as one without messages commits nothing."""

from __future__ import annotations

from threading import Event

from lakemq.jobs.tables.driver import Driver

LOOK_S = 60.0


def end_when_replaced(driver: Driver, stop: Event, every_s: float = LOOK_S) -> None:
    """Returns at the next `stop`, and raises `LakeTaken` once another has the lake. A store that doesn't answer says
    nothing of who has it."""
    while not stop.wait(every_s):
        driver.check_now()
