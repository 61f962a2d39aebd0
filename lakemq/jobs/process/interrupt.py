"""Signals while Spark starts: they end the start, afterwards they only ask the jobs to stop."""

from __future__ import annotations

import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event

AGAIN_S = 1.0

_STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupted_by_signals(stop: Event) -> Generator[None]:
    """SIGINT and SIGTERM set `stop`; inside they also raise `KeyboardInterrupt` in the main thread, until it leaves.

    Once isn't enough: an exception that is raised in a hook after a fork or in a finalizer is dropped by Python,
    and the start of a Java that never comes up would go on.
    """

    def interrupt(*_: object) -> None:
        if not stop.is_set():
            _expect_calls_cut_short()
        stop.set()
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        raise KeyboardInterrupt

    for number in (*_STOPS, signal.SIGALRM):
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in (*_STOPS, signal.SIGALRM):  # Spark has put its own handler for SIGINT there
            signal.signal(number, lambda *_: stop.set())
        signal.setitimer(signal.ITIMER_REAL, 0)


def _expect_calls_cut_short() -> None:
    """py4j logs a call to Java that the signal cuts short as an error with its traceback. It is none: all ends here."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interrupt)  # of what is logged by no logger's name, as py4j does then


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.exc_info is None or record.exc_info[0] is not KeyboardInterrupt
