"""A bound on how long the jobs take to end: what hangs in Java doesn't hold the process for ever.

Each table's commit is made or not, and what routing sends is stored once however often it is sent: so Java may be
ended at any instant, as by a kill.
"""

from __future__ import annotations

import logging
import time
from subprocess import Popen
from threading import Event, Thread
from typing import Any

from pyspark.sql import SparkSession

ENDS_WITHIN_S = 180.0
"""After a stop. Batches have 20 s to finish, and Spark has two minutes to stop a query (its `stopTimeout`)."""

logger = logging.getLogger(__name__)


class Ending:
    """Ends `java` where the jobs have not ended within that time after `stop`: whatever waits for it then fails."""

    def __init__(self, java: Popen[bytes], stop: Event, within_s: float = ENDS_WITHIN_S) -> None:
        self._java, self._stop, self._within_s = java, stop, within_s
        self._over = Event()
        self.forced_at_s: float | None = None
        """When it had to, by `time.monotonic`."""
        Thread(target=self._watch, name="ending", daemon=True).start()

    def over(self) -> None:
        """To be called when all has ended."""
        self._over.set()
        self._stop.set()

    def _watch(self) -> None:
        self._stop.wait()
        if self._over.wait(self._within_s):
            return
        self.forced_at_s = time.monotonic()
        logger.error("the jobs don't end within %d s: their Java is ended, as by a kill", self._within_s)
        self._java.kill()


def java_of(session: SparkSession) -> Popen[bytes]:
    """The process of the session's JVM, a child of this one."""
    context: Any = session.sparkContext
    return context._gateway.proc
