"""Delta's own transactions on one table, begun without a look at the whole folder of its log.

By itself Delta lists that folder as each transaction begins: a day's commits are some 20,000 files, and a listing of
them took longer than the commit. All commits of a lake come from one JVM, so Delta knows of them; of one that it
doesn't know it learns as it commits, by its name being taken, and then looks what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.table_log import TableLog, delta_class, java_class

LOOK_EVERY = 50
"""Every so many transactions the folder is listed all the same: what Delta has to remember of it is bounded so."""


class DeltaTransactions:
    """Of the table at `path`, which must exist. For one thread at a time."""

    def __init__(self, session: SparkSession, path: Path, driver: Driver) -> None:
        """`driver`: whose transactions they are."""
        self.log = TableLog(session, path)
        self._driver = driver
        self._begun = 0

    def begin(self, version: int) -> Any:
        """One that has read the table as of `version` or later, which must be there. Raises `LakeTaken` when that
        is another driver's; when it becomes so later, the transaction fails as it commits."""
        snapshot = self.log.known.unsafeVolatileSnapshot()
        if self._begun % LOOK_EVERY == 0 or snapshot.version() < version:
            snapshot = self.log.look()
        self._begun += 1
        self._driver.check(self.log.place, snapshot)
        return self.log.begin(snapshot)

    def append(self, transaction: Any, actions: Any, identifiers: Mapping[str, int], epoch: int = 0) -> int:
        """Commits the actions as a streaming update, with those of Delta's transaction identifiers; the version that
        this made. Fails as Delta does where another commit has set one of the identifiers meanwhile."""
        jvm, none = self.log.jvm, self.log.none
        set_transaction = delta_class(jvm, "actions.SetTransaction")
        for name, value in identifiers.items():
            # As `txnVersion` does, which also reads the whole state of the table each time.
            transaction.readTxn().append(name)
            actions = actions.appended(set_transaction(name, value, none))
        mode = java_class(jvm, "org.apache.spark.sql.streaming.OutputMode").Append()
        operation = delta_class(jvm, "DeltaOperations$StreamingUpdate")(mode, "lakemq", epoch, none)
        return int(transaction.commit(actions, operation))

    def check(self) -> Any:
        """The last version, by what is in the folder. Raises `LakeTaken` when another driver has taken the table."""
        snapshot = self.log.look()
        self._driver.check(self.log.place, snapshot)
        return snapshot
