"""`lakemq jobs`: starts the session, runs the jobs until a signal, and stops them cleanly."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread

from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable, LakeTaken
from lakemq.jobs.lake.healing import heal_again, heal_lake
from lakemq.jobs.lake.lock import LakeLock
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.maintenance.catalogue import schedules
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.scheduler import MaintenanceScheduler
from lakemq.jobs.maintenance.temporary_lake_query import temporary_lake_query
from lakemq.jobs.maintenance.told import ToldMaintenance
from lakemq.jobs.process.board import Board
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.control import Control
from lakemq.jobs.process.ending import Ending, java_of
from lakemq.jobs.process.found_tokens import find_tokens_first
from lakemq.jobs.process.interrupt import interrupted_by_signals
from lakemq.jobs.process.keep_running import Failures, keep_running
from lakemq.jobs.process.replaced import end_when_replaced
from lakemq.jobs.process.store_check import once_there, store_away
from lakemq.jobs.routing.query import JOBS as ROUTING
from lakemq.jobs.routing.query import RoutingQuery, name_of
from lakemq.jobs.routing.session import routing_session
from lakemq.jobs.served.server import SqlServer
from lakemq.jobs.session.connect import server_of
from lakemq.jobs.session.discovery import withdraw
from lakemq.jobs.session.java import check_java
from lakemq.jobs.session.session import start_session
from lakemq.jobs.session.starting import Mark, marked
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.logs import say
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.model.interrupted import was_interrupted
from lakemq.objects.table_place import check_fit
from lakemq.settings import Settings
from lakemq.storage.disk.clock import SystemClock
from lakemq.traces.batches import BatchSpans
from lakemq.traces.open_spans import open_spans
from lakemq.traces.spans import Spans
from lakemq.web.listen import CantListen
from lakemq.web.tls import tls_of
from lakemq.wire.name_servers import NameServers

LAKE = "lake"
MAINTENANCE = "maintenance"
JOBS = (LAKE, MAINTENANCE, *ROUTING)

logger = logging.getLogger(__name__)


def run_jobs(settings: Settings, broker_url: str, names: list[str], nameservers: Sequence[str] = ()) -> None:
    """Runs the named jobs, or all, until SIGINT or SIGTERM; `broker_url` may be a list of them, and with `nameservers`
    the brokers are those that these know at any time.

    A broker that is away is left out until it answers; one at least is waited for. Raises `LakemqError` for
    an unknown name, for a lake and a log that do not fit together, when a query keeps failing, and when the jobs had to
    be ended as they didn't by themselves (`Ending`). To be called once, in the main thread of a process of its own.
    """
    unknown = sorted(set(names) - set(JOBS))
    if unknown:
        raise SettingsError(f"no job {unknown[0]!r}; there are {', '.join(JOBS)}")
    chosen = set(names or JOBS)
    schedules(settings.maintenance)  # what is wrong there is said before anything starts
    if chosen & {LAKE, MAINTENANCE}:
        check_fit(settings.lake.dir)
    check_java()
    away = store_away(settings.lake.dir) if chosen & {LAKE, MAINTENANCE} else None
    os.nice(settings.spark.niceness)  # the JVM and its workers inherit it
    stop = Event()
    find_tokens_first(broker_url.split(","))
    with marked(settings.lake.dir) if LAKE in chosen else nullcontext() as mark:
        _run(settings, broker_url, nameservers, chosen, away, stop, mark)


def _run(
    settings: Settings,
    broker_url: str,
    nameservers: Sequence[str],
    chosen: set[str],
    away: OSError | None,
    stop: Event,
    mark: Mark | None,
) -> None:
    session = _start(settings, chosen, stop)
    if session is None:
        return
    ending = Ending(java_of(session), stop)
    spans: Spans | None = None
    try:
        turn = Lock()
        spans = open_spans(settings.traces, "lakemq-jobs", socket.gethostname(), os.environ)
        board = Board(SystemClock().now_ms)
        batches = BatchSpans(spans, SystemClock().now_ms, board.observe)
        watch = _watch(broker_url, nameservers, stop)
        if mark is not None:
            watch.on_waiting = mark.waits_for_broker
        watch.start()
        jobs = _routing_jobs(session, settings, watch, chosen, stop, turn, batches, board)
        if chosen & {LAKE, MAINTENANCE}:
            driver = Driver(session, settings.lake)
            work = partial(_write_lake, session, settings, watch, chosen, stop, turn, driver, batches, board)
            jobs.append(_Job(LAKE, partial(once_there, settings.lake.dir, away, stop, work), stop))
            jobs.append(_Job("driver", partial(end_when_replaced, driver, stop), stop))
        _run_to_end(jobs, stop, ending)
    finally:
        stop.set()
        if spans is not None:
            spans.close()
        _stop_session(session, ending)


def _stop_session(session: SparkSession, ending: Ending) -> None:
    try:
        session.stop()
    except Exception:
        if ending.forced_at_s is None:
            raise


def _watch(broker_url: str, nameservers: Sequence[str], stop: Event) -> BrokerWatch:
    return BrokerWatch("", stop, NameServers(nameservers)) if nameservers else BrokerWatch(broker_url, stop)


class _Job:
    """A thread whose failure stops all jobs."""

    def __init__(self, name: str, work: Callable[[], None], stop: Event) -> None:
        self._work = work
        self._stop = stop
        self.failure: BaseException | None = None
        self.ended_at_s = 0.0
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 (raised again by the main thread)
            self.failure = error
        finally:
            self.ended_at_s = time.monotonic()
            self._stop.set()


def _run_to_end(jobs: list[_Job], stop: Event, ending: Ending) -> None:
    """Raises what failed first: it may have made the others fail."""
    for job in jobs:
        job.thread.start()
    stop.wait()
    if any(isinstance(job.failure, LakeTaken) for job in jobs):
        ending.exit_code = LakeTaken.exit_code
    for job in jobs:
        job.thread.join()
    for job in sorted(jobs, key=lambda each: each.ended_at_s):
        if job.failure is not None and (ending.forced_at_s is None or job.ended_at_s < ending.forced_at_s):
            raise job.failure
    if ending.forced_at_s is not None:
        raise LakemqError("the jobs had to be ended: what they had not committed the next ones do again")


def _routing_jobs(
    session: SparkSession,
    settings: Settings,
    watch: BrokerWatch,
    chosen: set[str],
    stop: Event,
    turn: Lock,
    spans: BatchSpans,
    board: Board,
) -> list[_Job]:
    names = [name for name in ROUTING if name in chosen]
    if not names:
        return []
    new_run = partial(RoutingQuery, routing_session(session), settings, names, spans=spans)
    # The first batch is one without messages: its code is warm then.
    told = {"jobs": names, "board": board}
    keep = partial(keep_running, name_of(names), new_run, watch, stop, turn, batches_until_ready=1, **told)
    return [_Job(name_of(names), keep, stop)]


def _write_lake(
    session: SparkSession,
    settings: Settings,
    watch: BrokerWatch,
    chosen: set[str],
    stop: Event,
    turn: Lock,
    driver: Driver,
    spans: BatchSpans,
    board: Board,
) -> None:
    """The jobs that write the lake: one process at a time runs them."""
    lock = LakeLock(session, settings.lake.dir)
    views = LiveViews(session, settings.lake.dir, watch.addresses, server_of(session, settings))
    watch.on_schemas = views.schemas_changed
    triggers = schedules(settings.maintenance) if MAINTENANCE in chosen else {}
    alone = partial(temporary_lake_query, session, settings, watch.addresses, driver)
    lake_query = nullcontext if LAKE in chosen else alone
    healed = None if LAKE in chosen else partial(heal_again, session, settings.lake.dir, watch.addresses)
    runner = Runner(session, settings, watch.addresses, views.renew, lake_query, driver=driver, heal=healed)
    maintenance = MaintenanceScheduler(runner, settings, triggers)
    served: SqlServer | None = None
    try:
        if not _locked(lock, settings.lake.dir, stop):
            return
        if not _healed(settings.lake.dir, watch, stop):
            return
        if LAKE not in chosen:
            driver.take()
        maintenance.start()  # who holds the lock also does what other processes ask for
        with watch.telling((MAINTENANCE,)) if MAINTENANCE in chosen else nullcontext():
            if LAKE in chosen:
                told_runs = ToldMaintenance(runner, settings)
                control = Control(board, told_runs, settings, SystemClock().now_ms)
                served = _serve_sql(session, settings, watch, control)
                told = {"alone": runner.alone, "observe_batch": runner.metrics.observe_batch, "spans": spans}
                new_run = partial(LakeQuery, session, settings, views=views, driver=driver, **told)
                keep_running(LAKE, new_run, watch, stop, turn, board=board)
            else:
                say("maintenance: ready")
                stop.wait()
    finally:
        with ExitStack() as ends:  # the last first, whatever of it fails
            ends.callback(lambda: lock.release(still_writes=driver.left_writing))
            ends.callback(withdraw, settings.lake.dir)
            ends.callback(maintenance.stop)
            if served is not None:
                ends.callback(served.stop)


def _serve_sql(session: SparkSession, settings: Settings, watch: BrokerWatch, control: Control) -> SqlServer | None:
    """Answers `POST /v1/sql` from now on, if it is to be and can be: the jobs go on without it."""
    if not settings.sql_http.enabled:
        return None
    try:
        server = SqlServer(session, watch.addresses, settings.sql_http, tls_of(settings), control)
    except (CantListen, SettingsError) as error:
        logger.warning("POST /v1/sql is not served (sql_http): %s; the jobs continue without it", error.detail)
        return None
    server.start()
    watch.sql = server.url
    return server


def _locked(lock: LakeLock, lake: Path, stop: Event) -> bool:
    """Waits until no other process writes the lake; False when asked to stop before."""
    said = False
    while not lock.acquire():
        if not said:
            logger.warning("another process writes the lake in %s; waiting until it ends", lake)
            said = True
        if stop.wait(1.0):
            return False
    return True


def _healed(lake: Path, watch: BrokerWatch, stop: Event) -> bool:
    """Puts the lake back, before maintenance or the query writes or proves anything. Brokers whose logs may be needed
    for it are waited for, and so is a disk that can't be written; False when asked to stop before."""
    failures, said = Failures("mending of the lake"), False
    while not stop.is_set():
        try:
            heal_lake(lake, lambda: watch.addresses() if watch.wait() else "")
        except BrokerUnavailable as error:
            if not said:
                logger.warning("%s; waiting for it", error.detail)
                said = True
            stop.wait(1.0)
        except OSError as error:
            stop.wait(failures.pause_s(error, did_batches=False))
        else:
            return True
    return False


def _start(settings: Settings, chosen: set[str], stop: Event) -> SparkSession | None:
    """A session, with signals that set `stop`; None when one came before. A Java that never comes up is not
    waited for."""
    try:
        with interrupted_by_signals(stop):
            return start_session(settings, "lakemq jobs", server=bool(chosen & {LAKE, MAINTENANCE}))
    except BaseException as error:
        if was_interrupted(error):
            return None
        raise
