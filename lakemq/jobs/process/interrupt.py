"""Signals while Spark starts: they end the start, afterwards they only ask the jobs to stop."""

from __future__ import annotations

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
