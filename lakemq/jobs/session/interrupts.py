"""Ctrl-C in a process with Spark.

PySpark takes the signal for itself, and cancels Spark's jobs as it comes: by the connection to Java on which the call
that was interrupted waits for its answer. That closes the connection, Py4J finds it closed as it tidies up, and its
error takes the place of the interrupt.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from pyspark import SparkContext

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def interrupts_kept() -> Generator[None]:
    """What is done on SIGINT is so afterwards too, though a Spark was started within; its jobs are cancelled then, by
    a thread with a connection of its own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not before:
            if callable(before) and not isinstance(before, _Interrupt):
                before = _Interrupt(before)
            signal.signal(signal.SIGINT, before)


class _Interrupt:
    """Does what was done before, and has Spark's jobs cancelled."""

    def __init__(self, before: Handler) -> None:
        self._before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_cancel_jobs, name="cancel jobs", daemon=True).start()
        self._before(number, frame)


def _cancel_jobs() -> None:
    context = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if context is not None:
        with suppress(Exception):  # it has stopped meanwhile, and its jobs with it
            context.cancelAllJobs()
