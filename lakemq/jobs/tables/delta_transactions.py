"""Delta's own transactions on one table, begun without a look at the whole folder of its log.

By itself Delta lists that folder as each transaction begins: a day's commits are some 20,000 files, and a listing of
them took longer than the commit. All commits of a lake come from one JVM, so Delta knows of them; of one that it
doesn't know it learns as it commits, by its name being taken, and then looks what it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.tables.driver import Driver

LOOK_EVERY = 50
"""Every so many transactions the folder is listed all the same: what Delta has to remember of it is bounded so."""


class DeltaTransactions:
    """Of the table at `path`, which must exist. For one thread at a time."""

    def __init__(self, session: SparkSession, path: Path, driver: Driver | None = None) -> None:
        """`driver`: whose transactions they are; None: of somebody who has the lake for himself."""
        self._jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        self._java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        self._table, self._path = path, str(path)
        self._driver = driver or Driver()
        self._begun = 0

    @property
    def log(self) -> Any:
        """What the JVM knows of the table: the same for all who write it. Delta forgets it an hour after somebody has
        asked for it last, so it is asked for each time."""
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._java_session, self._path)

    def begin(self, version: int) -> Any:
        """One that has read the table as of `version` or later, which must be there. Raises `LakeTaken` when that
        is another driver's; when it becomes so later, the transaction fails as it commits."""
        log = self.log
        snapshot = log.unsafeVolatileSnapshot()
        if self._begun % LOOK_EVERY == 0 or snapshot.version() < version:
            snapshot = self.look()
        self._begun += 1
        self._driver.check(self._table, snapshot)
        return log.startTransaction(self._jvm.scala.Option.empty(), self._jvm.scala.Some(snapshot))

    def check(self) -> None:
        """Raises `LakeTaken` when another driver has taken the table."""
        self._driver.check(self._table, self.look())

    def look(self) -> Any:
        """The last version, by what is in the folder."""
        none = self._jvm.scala.Option.empty()
        return self.log.update(False, none, none)
