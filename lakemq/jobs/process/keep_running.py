"""Keeps a streaming query running: started again when it fails, until told to stop."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.process.broker_watch import BrokerWatch, Told
from lakemq.model.errors import LakemqError

FAILURES_MAX = 5
"""So many failures without a batch between them, with the broker there, end the process."""

_LOOK_S = 0.25
_PAUSE_S_MAX = 30.0

logger = logging.getLogger(__name__)


class Query(Told, Protocol):
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
    name: str,
    new_run: Callable[[str], Query],
    watch: BrokerWatch,
    stop: Event,
    turn: Lock,
    *,
    batches_until_ready: int = 0,
    jobs: Sequence[str] = (),
) -> None:
    """Runs to the next `stop`; says when the query is ready: after so many batches, which say
    nothing yet of whether it works. Until then it has the `turn`, as one of the queries. `jobs`: what it does, by
    the names that brokers are told; its own, where there are none.

    `new_run` is given the addresses of the brokers that answer, with commas: at least one is waited for.
    When one of them dies, or another is there again, a new run begins with those that answer then. Raises
    `LakemqError` when the query keeps failing, and what a new run can't mend.
    """
    failures = 0
    while addresses := watch.wait():
        query = new_run(",".join(addresses))
        try:
            with watch.telling(jobs or (name,), query):
                has_changed = partial(watch.has_changed, addresses)
                error = _run_once(name, query, has_changed, stop, turn, batches_until_ready)
        finally:
            query.stop()
        if stop.is_set() and error is None:
            return
        if error is None:
            logger.warning("%s query: other brokers answer than before; starting again", name)
            continue
        failures = 1 if query.batches > batches_until_ready else failures + 1
        if failures >= FAILURES_MAX:
            raise LakemqError(f"the {name} query keeps failing: {_one_line(error)}")
        logger.warning("%s query: %s; starting again", name, _one_line(error))
        stop.wait(min(2.0**failures, _PAUSE_S_MAX))


def say(line: str) -> None:
    """For people and for the process that started this one; what goes wrong is logged."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _run_once(
    name: str, query: Query, has_changed: Callable[[], bool], stop: Event, turn: Lock, batches_until_ready: int
) -> Exception | None:
    """One run to its end: None when it was asked to stop, or the brokers have changed. Raises what a new
    run can't mend."""
    with turn:  # Spark gives up when a process of Python takes 10 s to start, as one of many may
        if stop.is_set():
            return None
        try:
            stream = query.start()
        except (BrokerUnavailable, PySparkException) as error:
            return error
        while query.batches < batches_until_ready and stream.isActive and not stop.wait(_LOOK_S):
            if has_changed():
                return None
    if stream.isActive and not stop.is_set():
        say(f"{name} query: ready")
    while not stop.wait(_LOOK_S) and not has_changed():
        if not stream.isActive:
            return query.failure() or stream.exception() or LakemqError("the stream has ended")
    return None


def _one_line(error: Exception) -> str:
    if isinstance(error, LakemqError):
        return error.detail
    return (str(error).splitlines() or [type(error).__name__])[0]
