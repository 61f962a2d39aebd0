"""A bound on how long the jobs take to end: what hangs, in Java or outside it, doesn't hold the process for ever.

Each table's commit is made or not, and what routing sends is stored once however often it is sent: so Java may be
ended at any instant, as by a kill, and the process after it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from subprocess import Popen
from threading import Event, Thread
from typing import Any

from pyspark.sql import SparkSession

ENDS_WITHIN_S = 180.0
"""After a stop. Batches have 20 s to finish, and Spark has two minutes to stop a query (its `stopTimeout`)."""
EXITS_WITHIN_S = 20.0
"""After Java's end: whoever waits for an answer of Java's has failed by then."""

logger = logging.getLogger(__name__)


class Ending:
    """Ends `java` where the process has not ended within that time after `stop`: whatever waits for it then fails.
    What hangs for anything else doesn't, so soon after that the process exits as it stands.

    Nobody ends it but the interpreter's own end, which waits for threads too.
    """

    def __init__(
        self,
        java: Popen[bytes],
        stop: Event,
        within_s: float = ENDS_WITHIN_S,
        exits_within_s: float = EXITS_WITHIN_S,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._java, self._stop, self._leave = java, stop, leave
        self._within_s, self._exits_within_s = within_s, exits_within_s
        self.exit_code = 1
        """Of a process that has to exit; where something failed first, what that says."""
        self.forced_at_s: float | None = None
        """When it had to, by `time.monotonic`."""
        Thread(target=self._watch, name="ending", daemon=True).start()

    def _watch(self) -> None:
        self._stop.wait()
        time.sleep(self._within_s)
        self.forced_at_s = time.monotonic()
        logger.error("the jobs did not end within %d s: killing their Java", self._within_s)
        self._java.kill()
        time.sleep(self._exits_within_s)
        logger.error("something hangs outside Java too: the process exits now")
        self._leave(self.exit_code)


def java_of(session: SparkSession) -> Popen[bytes]:
    """The process of the session's JVM, a child of this one."""
    context: Any = session.sparkContext
    return context._gateway.proc
