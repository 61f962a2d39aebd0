"""A job on demand: done by the process that writes the lake, or here where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeNotFound
from lakemq.jobs.lake.healing import heal_again, heal_lake
from lakemq.jobs.lake.lock import LakeLock
from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.catalogue import JOBS
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import Run
from lakemq.jobs.maintenance.temporary_lake_query import temporary_lake_query
from lakemq.jobs.session.own_spark import own_spark
from lakemq.jobs.session.session import start_session
from lakemq.jobs.tables.driver import Driver
from lakemq.model.errors import LakemqError
from lakemq.objects.table_place import check_fit
from lakemq.settings import Settings
from lakemq.storage.lake.delta_log import tables_of

_LOOK_S = 0.2
_CANCEL_S_MAX = 120.0

Say = Callable[[str], None]


def run_job(settings: Settings, broker_url: str, name: str, parameters: Mapping[str, Any], say: Say) -> Run:
    """One run of the job; blocks until it has ended, however it ended.

    Raises `LakemqError` for a name that is none, `LakeNotFound` where there is no lake, and where
    the process that was asked can't do it. An interrupt withdraws the request; a run that is under
    way elsewhere goes on.
    """
    if name not in JOBS:
        raise LakemqError(f"no job {name!r}; there are {', '.join(JOBS)}")
    lake = settings.lake.dir
    check_fit(lake)
    if not tables_of(lake):
        raise LakeNotFound(f"there is no lake in {lake}: run `lakemq up` or `lakemq jobs` first")
    if requests.is_held(lake):
        run = _ask(settings, name, parameters, say)
        if run is not None:
            return run
    return _run_here(settings, broker_url, name, parameters, say)


def cancel_job(settings: Settings, name: str | None) -> tuple[str | None, int]:
    """Has the process that writes the lake end the run that is under way there, of that job or of any, and do none of
    those that were asked for and wait. Blocks until it is over. Which job's it was, and how many waited.

    Raises `LakemqError` for a name that is none, and where no such process is there, or none that answers.
    """
    if name is not None and name not in JOBS:
        raise LakemqError(f"no job {name!r}; there are {', '.join(JOBS)}")
    lake = settings.lake.dir
    if not requests.is_held(lake):
        raise LakemqError(f"nothing is under way: no jobs run for the lake in {lake}")
    request_id = requests.submit(lake, requests.CANCEL, {} if name is None else {"job": name})
    end = time.monotonic() + _CANCEL_S_MAX
    try:
        while (result := requests.take_result(lake, request_id)) is None:
            if time.monotonic() > end or not requests.is_held(lake):
                raise LakemqError(
                    "the process that writes the lake has not answered: it continues to the end "
                    "of its step. Ctrl-C ends a command that runs a job by itself"
                )
            time.sleep(_LOOK_S)
    finally:
        requests.withdraw(lake, request_id)
    return result["cancelled"], int(result["withdrawn"])


def _ask(settings: Settings, name: str, parameters: Mapping[str, Any], say: Say) -> Run | None:
    """Has the process that writes the lake do it; None: that one is gone."""
    lake = settings.lake.dir
    request_id = requests.submit(lake, name, parameters)
    say(f"asked the running jobs for {name}")
    try:
        while (result := requests.take_result(lake, request_id)) is None:
            time.sleep(_LOOK_S)
            if not requests.is_held(lake):
                result = requests.take_result(lake, request_id)
                break
    finally:
        requests.withdraw(lake, request_id)
    if result is None:
        return None
    if set(result) == {"error"}:
        raise LakemqError(result["error"])
    return Run.from_json(result)


def _run_here(settings: Settings, broker_url: str, name: str, parameters: Mapping[str, Any], say: Say) -> Run:
    say("no jobs run on this lake: starting Spark here")
    with own_spark():
        session = start_session(settings, f"lakemq {name}", short_lived=True)
        return _run_in(session, settings, broker_url, name, parameters)


def _run_in(
    session: SparkSession, settings: Settings, broker_url: str, name: str, parameters: Mapping[str, Any]
) -> Run:
    lock = LakeLock(session, settings.lake.dir)
    driver = Driver(session, settings.lake)  # takes the lake with the job; its lake queries are this driver's too
    try:
        if not lock.acquire():
            raise LakemqError("another process began to write the lake meanwhile; give the command again")
        heal_lake(settings.lake.dir, lambda: broker_url)
        lake_query = partial(temporary_lake_query, session, settings, lambda: broker_url, driver)
        healed = partial(heal_again, session, settings.lake.dir, lambda: broker_url)
        runner = Runner(session, settings, lambda: broker_url, lake_query=lake_query, driver=driver, heal=healed)
        return runner.run(name, "command", parameters)
    except KeyboardInterrupt:
        driver.left_writing = True  # Java goes on with the statement
        raise
    finally:
        lock.release(still_writes=driver.left_writing)
