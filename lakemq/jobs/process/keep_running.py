"""Keeps a streaming query running: started again when it fails, until told to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.process.board import Board
from lakemq.jobs.process.broker_watch import BrokerWatch, Told
from lakemq.jobs.process.store_away import failure_of, first_line, is_away, is_refused
from lakemq.logs import say
from lakemq.model.errors import LakemqError
from lakemq.storage.disk.clock import SystemClock

FAILURES_MAX = 5
"""So many failures without a batch between them, with the broker and the lake's store there, end the process."""
AWAY_MAX = 24
"""So many times on end a store that is away is tried again, with up to half a minute between: more than ten minutes."""
PYTHON_LATE = "Python worker failed to connect back"
"""Spark gives a process of Python 10 s to start, which no setting changes, and throws what it throws of a store."""

_LOOK_S = 0.25
_PAUSE_S_MAX = 30.0

logger = logging.getLogger(__name__)


class Query(Told, Protocol):
    """One run of a query."""

    batches: int

    def start(self) -> StreamingQuery:
        """Starts it; raises `BrokerUnavailable`, what a store that is away raises, or what a new run can't mend."""
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
    board: Board | None = None,
) -> None:
    """Runs to the next `stop`; says when the query is ready: after so many batches, which say
    nothing yet of whether it works. Until then it has the `turn`, as one of the queries. `jobs`: what it does, by
    the names that brokers are told; its own, where there are none. `board` is told how it is.

    `new_run` is given the addresses of the brokers that answer, with commas: at least one is waited for.
    When one of them dies, or another is there again, a new run begins with those that answer then. A store that is
    away is waited for, about ten minutes: meanwhile the process does whatever else it does. Raises `LakemqError` when
    the query keeps failing, and what a new run can't mend: also where the store refuses.
    """
    failures = Failures(f"{name} query")
    board = board or Board(SystemClock().now_ms)
    board.waits(name, jobs or (name,))
    while addresses := watch.wait():
        board.starts(name)
        query = new_run(",".join(addresses))
        try:
            with watch.telling(jobs or (name,), query):
                has_changed = partial(watch.has_changed, addresses)
                error = _run_once(name, query, has_changed, stop, turn, batches_until_ready, board)
        finally:
            query.stop()
        if stop.is_set() and error is None:
            return
        if error is None:
            logger.warning("%s query: the set of brokers has changed; restarting", name)
            board.waits(name, jobs or (name,))
            continue
        board.failed(name, _one_line(error))
        stop.wait(failures.pause_s(error, query.batches > batches_until_ready))


class Failures:
    """Those of a query, or of what else is tried again, one after the other, without a batch between them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = self._away = 0

    def pause_s(self, error: Exception, did_batches: bool) -> float:
        """So long to wait before the next run. Raises `LakemqError` when there have been enough of them."""
        if did_batches:
            self._count = self._away = 0
        line = _one_line(error)
        if is_refused(error):
            raise LakemqError(f"the lake's store refuses the {self._name}: {line}") from error
        away = is_away(error)
        if away:
            self._away += 1
        else:
            self._count, self._away = self._count + 1, 0
        if self._count >= FAILURES_MAX or self._away >= AWAY_MAX:
            raise LakemqError(f"the {self._name} keeps failing: {line}") from error
        pause_s = min(2.0 ** (self._away or self._count), _PAUSE_S_MAX)
        logger.warning("%s: %s%s; starting again in %d s", self._name, _reason(line, away), line, pause_s)
        return pause_s


def _reason(line: str, away: bool) -> str:
    if PYTHON_LATE in line:
        return "Python took more than 10 s to start, as on a machine that is too busy: "
    return "the lake's store is unreachable, or can't be written: " if away else ""


def _run_once(
    name: str,
    query: Query,
    has_changed: Callable[[], bool],
    stop: Event,
    turn: Lock,
    batches_until_ready: int,
    board: Board,
) -> Exception | None:
    """One run to its end: None when it was asked to stop, or the brokers have changed. Raises what a new
    run can't mend."""
    with turn:  # Spark gives up when a process of Python takes 10 s to start, as one of many may
        if stop.is_set():
            return None
        try:
            stream = query.start()
        except Exception as error:
            if isinstance(error, BrokerUnavailable | PySparkException) or is_away(error) or is_refused(error):
                return error
            raise
        while query.batches < batches_until_ready and stream.isActive and not stop.wait(_LOOK_S):
            if has_changed():
                return None
    if stream.isActive and not stop.is_set():
        say(f"{name} query: ready")
        board.runs(name)
    while not stop.wait(_LOOK_S) and not has_changed():
        if not stream.isActive:
            return query.failure() or failure_of(stream) or LakemqError("the stream has ended")
    return None


def _one_line(error: Exception) -> str:
    if isinstance(error, LakemqError):
        return error.detail
    return first_line(error)
