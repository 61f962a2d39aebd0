"""What a job is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakemq.contract import routes
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import TABLES
from lakemq.jobs.tables.topic_table import TopicTable, topic_tables
from lakemq.model.errors import LakemqError
from lakemq.settings import Maintenance, Settings
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import is_made
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.prove import prove


class Stopped(LakemqError):
    """The job was asked to stop; what it had not done yet is as it was."""

    code = "maintenance_stopped"


class Cancelled(LakemqError):
    """Somebody has the run end; what it had not done yet is as it was."""

    code = "maintenance_cancelled"


class GivesWay(LakemqError):
    """The lake is put back: what the job has not done yet it does again then."""

    code = "maintenance_gives_way"


class ClockAhead(LakemqError):
    """What deletes by age waits until the clock is believed."""

    code = "clock_ahead"


CLOCK_AHEAD_MS_MAX = 60_000
"""What keeps by the hour may do so with a clock that is off by so much."""


LakeQueryMeanwhile = Callable[[], AbstractContextManager[Callable[[], None] | None]]
"""Within it the lake query runs; what it gives, if anything, raises when that has ended."""


def _nothing() -> None: ...


def _ignore(step: str) -> None: ...


@dataclass(frozen=True)
class Work:
    """One run of a job, by the process that holds the lake's lock.

    `refresh`: has the live views look at the tables as they are now. `lake_query`: the tables come
    up to the logs within it, for where no lake query runs beside. `driver`: in whose name it is.
    """

    session: SparkSession
    settings: Settings
    broker_url: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stop: Event = field(default_factory=Event)
    gives_way: Event = field(default_factory=Event)
    cancelled: Event = field(default_factory=Event)
    refresh: Callable[[], None] = _nothing
    lake_query: LakeQueryMeanwhile = nullcontext
    driver: Driver = field(kw_only=True)
    at: Callable[[str], None] = field(kw_only=True, default=_ignore)
    """Is told which step begins, for who looks."""

    @property
    def lake(self) -> Path:
        return self.settings.lake.dir.absolute()

    @property
    def options(self) -> Maintenance:
        return self.settings.maintenance

    def tables(self) -> list[LakeTable]:
        """Those of the lake's tables that are there."""
        return [table for table in TABLES if is_made(table.path(self.lake))]

    def topic_tables(self) -> list[TopicTable]:
        """Topics' own tables, whether they are kept still or not."""
        return list(topic_tables(self.lake))

    def paths(self) -> list[Path]:
        """The folders of them all."""
        return [*(table.path(self.lake) for table in self.tables()), *(each.path for each in self.topic_tables())]

    def rows(self, table: LakeTable, version: int | None = None) -> DataFrame:
        """The rows of a version of the table; None: of the last that there is now.

        A plan that names no version may be answered from what some session of this JVM has cached
        long ago, and be wrong.
        """
        path = table.path(self.lake)
        chosen = read_progress(path).version if version is None else version
        return self.session.read.format("delta").option("versionAsOf", chosen).load(str(path))

    def forget_cached(self) -> None:
        """To be called before a statement that changes a table: its scans name no version, and Spark
        would answer them from what a session has cached. What is dropped is read again when needed."""
        self.session.catalog.clearCache()

    def bring_to_disk(self) -> None:
        """To be called before files go that what was just committed replaces. Raises `OSError`."""
        prove(self.lake)

    def steady_ms(self) -> int:
        """The time by which rows and files may be deleted, ms since 1970: the least that a broker vouches for,
        and not after this machine's. Raises `BrokerUnavailable` when none answers."""
        now_ms = SystemClock().now_ms()
        if not self.broker_url:
            return now_ms
        told: list[int] = []
        for address in self.broker_url.split(","):
            with closing(LogClient(address, retry_s=2.0)) as client, suppress(BrokerUnavailable):
                told.append(int(client.ask(routes.BROKER.at())["steady_ms"]))
        if not told:
            raise BrokerUnavailable("no broker answers that could say what time it is: nothing is deleted by its age")
        return min(now_ms, *told)

    def check_clock(self) -> None:
        """Raises `ClockAhead` where this machine's clock is ahead of what the brokers vouch for."""
        ahead_ms = SystemClock().now_ms() - self.steady_ms()
        if ahead_ms > CLOCK_AHEAD_MS_MAX:
            raise ClockAhead(
                f"the clock is {ahead_ms // 1000} s ahead of what has passed: nothing is deleted by it until a "
                "broker believes it (storage.clock_confirm_ms)"
            )

    def check_driver(self) -> None:
        """To be called before something is written. Takes the lake where this driver has taken nothing yet; raises
        `LakeTaken` when another driver writes it now. A statement that is under way as that begins fails in Delta."""
        if self.driver.has_taken:
            self.driver.check_now()
        else:
            self.driver.take()

    def is_to_end(self) -> bool:
        """Whether `check` raises."""
        return self.stop.is_set() or self.cancelled.is_set() or self.gives_way.is_set()

    def check(self) -> None:
        """To be called between steps; raises `Stopped`, `Cancelled` or `GivesWay`."""
        if self.stop.is_set():
            raise Stopped("the job was asked to stop")
        if self.cancelled.is_set():
            raise Cancelled("it was cancelled")
        if self.gives_way.is_set():
            raise GivesWay("the lake is put back first")


@dataclass(frozen=True)
class Outcome:
    """What a run did, as JSON has it; `differs`: it looked for differences and found some."""

    detail: dict[str, Any]
    differs: bool = False


@dataclass(frozen=True)
class Job:
    """A job by its name. `run` can be called again after any failure, also after a kill."""

    name: str
    about: str
    run: Callable[[Work], Outcome]
    setting: str | None = None
    """The setting in `maintenance` with its schedule; None: only when asked for."""
