"""Carries out one job after another: attempts, a row in the table of runs, metrics."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from threading import Event, Lock
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemq.jobs.errors import InvalidStatement, LakeNotFound, LakeTaken
from lakemq.jobs.maintenance.catalogue import JOBS
from lakemq.jobs.maintenance.layout import files_of
from lakemq.jobs.maintenance.metrics import Metrics
from lakemq.jobs.maintenance.runs import CANCELLED, DIFFERS, DONE, FAILED, STOPPED, Run, append_run
from lakemq.jobs.maintenance.work import Cancelled, Job, LakeQueryMeanwhile, Outcome, Stopped, Work
from lakemq.jobs.tables.driver import Driver
from lakemq.model.errors import LakemqError, LogReplaced, SettingsError
from lakemq.settings import Settings
from lakemq.storage.disk.clock import SystemClock

POOL = "maintenance"
_FINAL = (InvalidStatement, LakeNotFound, LakeTaken, LogReplaced, SettingsError, Stopped, Cancelled)
"""What another attempt can't mend."""
_STOP_S_MAX = 10.0
_GIVE_WAY_S_MAX = 120.0
_CANCEL_S = 1.0
_LOOK_S = 0.2

logger = logging.getLogger(__name__)


class UnderWay(NamedTuple):
    """A run: of which job, and which of this process; since when (ms since 1970), and by whom."""

    job: str
    number: int
    started_at: int = 0
    started_by: str = ""


def _nothing() -> None: ...


class Runner:
    """Runs jobs in the process that holds the lake's lock, one at a time.

    `refresh` has the live views look at the tables again; within `lake_query` the tables come up
    to the logs, for where no lake query of this process runs beside. `driver`: in whose name all is done, the same as
    the lake query's, which takes the lake with the first job if it hasn't yet. `heal` puts the lake back before each
    attempt, where no lake query runs beside that does so with each run.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        brokers: Callable[[], str],
        refresh: Callable[[], None] = _nothing,
        lake_query: LakeQueryMeanwhile = nullcontext,
        *,
        driver: Driver,
        heal: Callable[[], None] | None = None,
    ) -> None:
        self._driver = driver
        self._heal = heal
        self._session = session
        self._settings = settings
        self._brokers = brokers
        self._refresh = refresh
        self._lake_query = lake_query
        self._stop, self._gives_way = Event(), Event()
        self._turn, self._door, self._writes = Lock(), Lock(), Lock()
        self._cancelled, self._now = Event(), Lock()
        self._under_way: UnderWay | None = None
        self._runs = 0
        self._step = ""
        self.noted = 0
        """So many rows of runs this process has added."""
        self._gave_way = 0
        self.metrics = Metrics()

    def run(self, name: str, started_by: str, parameters: Mapping[str, Any] | None = None) -> Run:
        """One run of the job of that name, to its end. What fails is in the answer, not raised."""
        with self._turn:
            context = self._session.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOL)
            context.setJobGroup(POOL, name, interruptOnCancel=True)
            with self._now:
                self._cancelled.clear()
                self._runs += 1
                self._under_way = UnderWay(name, self._runs, SystemClock().now_ms(), started_by)
                self._step = ""
            try:
                return self._run(JOBS[name], started_by, parameters or {})
            finally:
                with self._now:
                    self._under_way = None

    def describe(self) -> dict[str, Any] | None:
        """The run that is under way: its job, since when, by whom, what it does now, and whether it is to end."""
        with self._now:
            found = self._under_way
            if found is None:
                return None
            told = {"job": found.job, "started_at": found.started_at, "started_by": found.started_by}
            return told | {"step": self._step, "cancelled": self._cancelled.is_set()}

    def _at(self, step: str) -> None:
        with self._now:
            self._step = step

    def cancel(self, name: str | None = None, number: int | None = None) -> UnderWay | None:
        """Has the run that is under way end, between its steps, or within one by cancelling what Spark does for it, if
        it is one of that job, and that very one; None: there is none. To be called again until it is over, as it may
        have begun something else in Spark since."""
        with self._now:
            found = self._under_way
            if found is None or name not in (None, found.job) or number not in (None, found.number):
                return None
            self._cancelled.set()
            # Within: else it might be the next run's already.
            self._session.sparkContext.cancelJobGroup(POOL)
            return found

    def stop(self) -> None:
        """Ends the job that is under way, if any, and waits for it for some seconds: `driver.left_writing` says where
        that was not enough."""
        self._stop.set()
        is_free = self._turn.acquire(blocking=False)
        try:
            if not is_free:
                self._session.sparkContext.cancelJobGroup(POOL)
                is_free = self._turn.acquire(timeout=_STOP_S_MAX)
        finally:
            if is_free:
                self._turn.release()
            else:
                self._driver.left_writing = True

    @contextmanager
    def alone(self) -> Generator[None]:
        """Within it no job writes: the attempt that is under way gives way, and is made again after. Raises
        `LakemqError` where it doesn't end: `driver.left_writing` is set then, as something may still be committed."""
        with self._door:  # who gives way doesn't begin again before this one has had its turn
            self._gave_way += 1  # before the attempt fails of it
            self._gives_way.set()
            try:
                if not self._wait_for_writes():
                    self._driver.left_writing = True
                    raise LakemqError("a maintenance job is still running, and nobody may restore the lake meanwhile")
            finally:
                self._gives_way.clear()
            try:
                yield
            finally:
                self._writes.release()

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Within it a job commits. A lock isn't given to who waits longest, but to who comes: hence the door."""
        with self._door:
            self._writes.acquire()
        try:
            yield
        finally:
            self._writes.release()

    def _wait_for_writes(self) -> bool:
        if self._writes.acquire(blocking=False):
            return True
        give_up = time.monotonic() + _GIVE_WAY_S_MAX
        while time.monotonic() < give_up:
            self._session.sparkContext.cancelJobGroup(POOL)  # again: it may have begun one more
            if self._writes.acquire(timeout=_CANCEL_S):
                return True
        return False

    def _run(self, job: Job, started_by: str, parameters: Mapping[str, Any]) -> Run:
        clock = SystemClock()
        started_at = clock.now_ms()
        work = Work(
            self._session,
            self._settings,
            self._brokers(),
            parameters,
            self._stop,
            self._gives_way,
            self._cancelled,
            self._refresh,
            self._lake_query,
            driver=self._driver,
            at=self._at,
        )
        before = _size(work)
        attempts, outcome, error = self._attempt(job, work)
        after = _size(work)
        if outcome is None:
            result = STOPPED if self._stop.is_set() else CANCELLED if self._cancelled.is_set() else FAILED
            error = Cancelled("it was cancelled").detail if result == CANCELLED else error
            outcome = Outcome({})
        else:
            result = DIFFERS if outcome.differs else DONE
        run = Run(
            run_id=uuid.uuid4().hex,
            job=job.name,
            started_by=started_by,
            started_at=started_at,
            ended_at=clock.now_ms(),
            attempts=attempts,
            result=result,
            error=error,
            files_before=before[0],
            files_after=after[0],
            bytes_before=before[1],
            bytes_after=after[1],
            detail=outcome.detail,
        )
        if attempts:
            with self._writing():
                self._note(run)
            self._show()
        return run

    def _attempt(self, job: Job, work: Work) -> tuple[int, Outcome | None, str | None]:
        """Up to `attempts_max` attempts: how many, and what came of the last. None after a stop: the lake's lock may be
        another's by then."""
        attempt = 0
        if self._stop.is_set():
            return attempt, None, None
        while True:
            attempt, gave_way = attempt + 1, self._gave_way
            try:
                with self._writing():
                    return attempt, self._do(job, work), None
            except Exception as error:  # noqa: BLE001 (of any kind: it must not end the queries)
                line = one_line(error)
                final = isinstance(error, _FINAL) or self._stop.is_set() or self._cancelled.is_set()
                attempt -= self._gave_way != gave_way  # whatever it failed with then
                if final or attempt >= self._settings.maintenance.attempts_max:
                    return attempt, None, line
                logger.warning("%s: %s; retrying", job.name, line)
            if self._is_over_after(attempt * self._settings.maintenance.retry_pause_ms / 1000):
                return attempt, None, line

    def _is_over_after(self, pause_s: float) -> bool:
        """Whether nothing more is to be tried, after that pause."""
        end = time.monotonic() + pause_s
        while not self._cancelled.is_set() and not self._stop.wait(min(_LOOK_S, max(end - time.monotonic(), 0))):
            if time.monotonic() >= end:
                return False
        return True

    def _do(self, job: Job, work: Work) -> Outcome:
        if self._heal is not None:
            self._driver.check_now()
            self._heal()
        work.check_driver()
        outcome = job.run(work)
        work.bring_to_disk()
        return outcome

    def _show(self) -> None:
        try:
            self._refresh()
        except Exception as error:  # noqa: BLE001 (the views are exact as they are; only older)
            logger.warning("the live views stay at older versions: %s", one_line(error))

    def _note(self, run: Run) -> None:
        self.metrics.observe(run)
        if run.result in {FAILED, DIFFERS}:
            logger.warning("%s: %s (%s)", run.job, run.result, run.error or run.detail)
        try:
            append_run(self._settings.lake.dir, run)
            self.noted += 1
        except Exception as error:  # noqa: BLE001 (the run itself is over; the log has it then)
            logger.warning("could not record the run of %s in maintenance_runs: %s", run.job, one_line(error))


def one_line(error: Exception) -> str:
    """What went wrong, without a stack."""
    if isinstance(error, LakemqError):
        return error.detail
    text = str(error) if isinstance(error, PySparkException) or str(error) else type(error).__name__
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _size(work: Work) -> tuple[int, int]:
    """Files and bytes of all tables' present versions; none of a lake that can't be read."""
    try:
        found = [files_of(work, table) for table in work.tables()]
    except Exception as error:  # noqa: BLE001 (the job itself will say what is wrong, or mend it)
        logger.warning("can't count the tables' files: %s", one_line(error))
        return 0, 0
    return sum(each.files for each in found), sum(each.bytes for each in found)
