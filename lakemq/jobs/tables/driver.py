"""Who writes a lake, as each of its tables says: by a number that only rises.

Who begins to write gives each table the next number, as a property: a change of metadata, and Delta lets no
transaction commit that began before one. Every later transaction of ours looks whether the table that it has read has
our number still. So a driver that stood still while another took its place commits to no table that the other has
taken: what it had begun fails in Delta, and it begins nothing more.

Each table is taken by compare-and-set, and who finds one with the number that it wanted takes a later one: no two
drivers have the same number. All take the tables in the same order, so one of two gets on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeTaken
from lakemq.model.errors import LakeUnreadable

PROPERTY = "lakemq.driver"

_ATTEMPTS_MAX = 20
_CONFLICTS = "io.delta.exceptions."


class Driver:
    """One that writes a lake, from its `take` on. Safe from any thread."""

    def __init__(self) -> None:
        self.number = 0
        """0: it has taken nothing yet."""
        self._turn = Lock()

    def take(self, session: SparkSession, tables: Sequence[Path]) -> None:
        """Makes the tables this driver's, which must be there; those that are already are left as they are. Of no
        table nothing is taken.

        Raises `LakeTaken` when this driver had taken them, and another has since.
        """
        with self._turn:
            if tables:
                self._take(session, tables)

    def _take(self, session: SparkSession, tables: Sequence[Path]) -> None:
        for _ in range(_ATTEMPTS_MAX):
            found = [number_of(_look(session, table)) for table in tables]
            if self.number and max(found) > self.number:
                raise taken(tables[found.index(max(found))])
            wanted = self.number or max(found) + 1
            if self._take_all(session, tables, wanted):
                self.number = wanted
                return
        raise LakeTaken("other drivers take the lake again and again: none of them gets it")

    def _take_all(self, session: SparkSession, tables: Sequence[Path], wanted: int) -> bool:
        """False when others came in between: nothing is known then."""
        for table in tables:
            snapshot = _look(session, table)
            found = number_of(snapshot)
            if found > wanted or (found == wanted and not self.number):
                return False
            if found < wanted and not _set_number(session, table, snapshot, wanted):
                return False
        return True

    def check(self, table: Path, snapshot: Any) -> None:
        """Raises `LakeTaken` when that version of the table is a later driver's."""
        if self.number and number_of(snapshot) > self.number:
            raise taken(table)

    def check_now(self, session: SparkSession, tables: Sequence[Path]) -> None:
        """The same of the last versions, by what is in the folders. A log that can't be read says nothing."""
        for table in tables if self.number else ():
            with suppress(Py4JJavaError):
                self.check(table, _look(session, table))


def taken(table: Path) -> LakeTaken:
    return LakeTaken(f"another driver has taken {table}: this one was thought dead, and commits nothing more")


def number_of(snapshot: Any) -> int:
    """The driver that a version of a table says; 0: none."""
    found = snapshot.metadata().configuration().get(PROPERTY)
    return int(found.get()) if found.isDefined() else 0


def _look(session: SparkSession, table: Path) -> Any:
    none = _jvm(session).scala.Option.empty()
    return _log(session, table).update(False, none, none)


def _set_number(session: SparkSession, table: Path, snapshot: Any, number: int) -> bool:
    """Whether it was set; not when somebody else changed the table's metadata since that version."""
    jvm = _jvm(session)
    transaction = _log(session, table).startTransaction(jvm.scala.Option.empty(), jvm.scala.Some(snapshot))
    old = snapshot.metadata()
    configuration = old.configuration().updated(PROPERTY, str(number))
    new = old.copy(
        *(old.id(), old.name(), old.description(), old.format(), old.schemaString()),
        *(old.partitionColumns(), configuration, old.createdTime()),
    )
    delta = jvm.org.apache.spark.sql.delta
    operation = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    nothing = getattr(jvm.scala.collection.immutable, "Nil$").__getattr__("MODULE$")
    try:
        transaction.updateMetadata(new, False)
        transaction.commit(nothing, operation)
    except Py4JJavaError as error:
        if _CONFLICTS in str(error.java_exception.toString()):
            return False
        raise LakeUnreadable(f"the driver's number can't be set in {table}: {error.java_exception}") from error
    return True


def _log(session: SparkSession, table: Path) -> Any:
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return _jvm(session).org.apache.spark.sql.delta.DeltaLog.forTable(java_session, str(table))


def _jvm(session: SparkSession) -> Any:
    return session._jvm  # pyright: ignore[reportPrivateUsage]
