"""Whether another driver has taken the lake: looked at now and then, as one without messages commits nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import TABLES
from lakemq.storage.lake.delta_log import is_table

LOOK_S = 60.0

logger = logging.getLogger(__name__)


def end_when_replaced(session: SparkSession, lake: Path, driver: Driver, stop: Event, every_s: float = LOOK_S) -> None:
    """Returns at the next `stop`, and raises `LakeTaken` once another has the lake. A store that doesn't answer says
    nothing of who has it."""
    while not stop.wait(every_s):
        try:
            driver.check_now(session, [path for table in TABLES if is_table(path := table.path(lake))])
        except OSError as error:
            logger.warning("can't look whose the lake is: %s", error)
