"""`lakemq jobs`: starts the session, runs the jobs until a signal, and stops them cleanly."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from threading import Event

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.lake_lock import LakeLock
from lakemq.jobs.lake_query import LakeQuery
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance import Maintenance
from lakemq.jobs.session import start_session
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.settings import Settings

LAKE = "lake"
OPTIMIZE = "optimize"
JOBS = (LAKE, OPTIMIZE)

FAILURES_MAX = 5
"""So many failures without a batch between them, with the broker there, end the process."""

_LOOK_S = 0.25
_PAUSE_S_MAX = 30.0

logger = logging.getLogger(__name__)


def run_jobs(settings: Settings, broker_url: str, names: list[str]) -> None:
    """Runs the named jobs, or all, until SIGINT or SIGTERM; `broker_url` may be a list of them.

    A broker that is away is waited for. Raises `LakemqError` for an unknown name, for a lake and
    a log that do not fit together, and when the query keeps failing. To be called once, in the
    main thread of a process of its own.
    """
    unknown = sorted(set(names) - set(JOBS))
    if unknown:
        raise SettingsError(f"no job {unknown[0]!r}; there are {', '.join(JOBS)}")
    chosen = set(names or JOBS)
    os.nice(settings.spark.niceness)  # the JVM and its workers inherit it
    stop = Event()
    _on_signals(stop)
    session = start_session(settings, "lakemq jobs")
    _on_signals(stop)  # Spark has put its own handler for SIGINT there
    maintenance = Maintenance(session, settings)
    lock = LakeLock(session, settings.lake.dir)
    try:
        if not _locked(lock, settings.lake.dir, stop):
            return
        if OPTIMIZE in chosen:
            maintenance.start()
        if LAKE in chosen:
            _run_lake(session, settings, broker_url, stop)
        else:
            _say("optimize: ready")
            stop.wait()
    finally:
        maintenance.stop()
        lock.release()
        session.stop()


def _run_lake(session: SparkSession, settings: Settings, broker_url: str, stop: Event) -> None:
    failures = 0
    while _broker_answers(broker_url, stop):
        query = LakeQuery(session, settings, broker_url)
        error = _run_once(query, stop)
        query.stop()
        if error is None:
            return
        failures = 1 if query.batches else failures + 1
        if failures >= FAILURES_MAX:
            raise LakemqError(f"the lake query keeps failing: {_one_line(error)}")
        logger.warning("lake query: %s; starting again", _one_line(error))
        stop.wait(min(2.0**failures, _PAUSE_S_MAX))


def _locked(lock: LakeLock, lake: Path, stop: Event) -> bool:
    """Waits until no other process writes the lake; False when asked to stop before."""
    said = False
    while not lock.acquire():
        if not said:
            logger.warning("another process writes the lake in %s; waiting for its end", lake)
            said = True
        if stop.wait(1.0):
            return False
    return True


def _run_once(query: LakeQuery, stop: Event) -> Exception | None:
    """One run to its end: None when it was asked to stop. Raises what a new run can't mend."""
    try:
        stream = query.start()
    except (BrokerUnavailable, PySparkException) as error:
        return error
    _say("lake query: ready")
    while not stop.wait(_LOOK_S):
        if not stream.isActive:
            return query.failure() or stream.exception() or LakemqError("the stream has ended")
    return None


def _broker_answers(broker_url: str, stop: Event) -> bool:
    """Waits until every broker answers; False when asked to stop before."""
    for address in broker_url.split(","):
        client = LogClient(address, retry_s=0)
        said = False
        while True:
            try:
                client.end()
                break
            except BrokerUnavailable as error:
                if not said:
                    logger.warning("%s; waiting for it", error.detail)
                    said = True
            if stop.wait(1.0):
                return False
        client.close()
    return not stop.is_set()


def _on_signals(stop: Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def _say(line: str) -> None:
    """For people and for the process that started this one; what goes wrong is logged."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _one_line(error: Exception) -> str:
    if isinstance(error, LakemqError):
        return error.detail
    return (str(error).splitlines() or [type(error).__name__])[0]
