"""Keeps a streaming query running: started again when it fails, until told to stop."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from threading import Event, Lock
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.model.errors import LakemqError

FAILURES_MAX = 5
"""So many failures without a batch between them, with the broker there, end the process."""

_LOOK_S = 0.25
_PAUSE_S_MAX = 30.0

logger = logging.getLogger(__name__)


class Query(Protocol):
    """One run of a query."""

    batches: int

    def start(self) -> StreamingQuery:
        """Starts it; raises `BrokerUnavailable`, or what a new run can't mend."""
        ...

    def failure(self) -> Exception | None:
        """What a batch failed with, as it was raised; None when none did."""
        ...

    def stop(self) -> None:
        """Ends the run, started or not."""
        ...


def keep_running(
    name: str, new_run: Callable[[], Query], broker_url: str, stop: Event, turn: Lock, *, batches_until_ready: int = 0
) -> None:
    """Runs to the next `stop`; says when the query is ready: after so many batches, which say
    nothing yet of whether it works. Until then it has the `turn`, as one of the queries.

    A broker that is away is waited for. Raises `LakemqError` when the query keeps failing, and
    what a new run can't mend.
    """
    failures = 0
    while _broker_answers(broker_url, stop):
        query = new_run()
        try:
            error = _run_once(name, query, stop, turn, batches_until_ready)
        finally:
            query.stop()
        if error is None:
            return
        failures = 1 if query.batches > batches_until_ready else failures + 1
        if failures >= FAILURES_MAX:
            raise LakemqError(f"the {name} query keeps failing: {_one_line(error)}")
        logger.warning("%s query: %s; starting again", name, _one_line(error))
        stop.wait(min(2.0**failures, _PAUSE_S_MAX))


def say(line: str) -> None:
    """For people and for the process that started this one; what goes wrong is logged."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _run_once(name: str, query: Query, stop: Event, turn: Lock, batches_until_ready: int) -> Exception | None:
    """One run to its end: None when it was asked to stop. Raises what a new run can't mend."""
    with turn:  # Spark gives up when a process of Python takes 10 s to start, as one of many may
        if stop.is_set():
            return None
        try:
            stream = query.start()
        except (BrokerUnavailable, PySparkException) as error:
            return error
        while query.batches < batches_until_ready and stream.isActive and not stop.wait(_LOOK_S):
            pass
    if stream.isActive and not stop.is_set():
        say(f"{name} query: ready")
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


def _one_line(error: Exception) -> str:
    if isinstance(error, LakemqError):
        return error.detail
    return (str(error).splitlines() or [type(error).__name__])[0]
