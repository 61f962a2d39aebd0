"""Who writes a lake, as each of its tables says: by a number that only rises.

Who begins to write gives each table the next number, as a property: a change of metadata, and Delta lets no
transaction commit that began before one. Every later transaction of ours looks whether the table that it has read has
our number still. So a driver that stood still while another took its place commits to no table that the other has
taken: what it had begun fails in Delta, and it begins nothing more.

Each table is taken by compare-and-set, and who finds one with the number that it wanted takes a later one: no two
drivers have the same number. All take the tables in the same order, so one of two gets on.

Of a lake in a folder of one machine the lock keeps all others out, and no number is set: there may be no commits of
ours but those of messages. A lake whose tables have a number keeps to it.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeTaken
from lakemq.jobs.tables.table_log import TableLog, delta_class
from lakemq.jobs.tables.tables import TABLES
from lakemq.model.errors import LakeUnreadable
from lakemq.objects.path import is_object
from lakemq.settings import Lake
from lakemq.storage.lake.delta_log import is_made

PROPERTY = "lakemq.driver"

_ATTEMPTS_MAX = 20
_CONFLICTS = "io.delta.exceptions."


class Driver:
    """One that writes a lake, from its `take` on. Safe from any thread."""

    def __init__(self, session: SparkSession, lake: Lake) -> None:
        self.number = 0
        """0: it has taken nothing yet, or a lake that only this machine writes."""
        self.has_taken = False
        self.left_writing = False
        """Something that writes in its name has not ended when it was told to: the lake's lock is not to be let go."""
        self._session, self._lake = session, lake
        self._taken: list[TableLog] = []
        self._turn = Lock()

    def take(self) -> None:
        """Makes the tables that are there this driver's; those that are already are left as they are.

        Raises `LakeTaken` when this driver had taken them, and another has since.
        """
        with self._turn:
            paths = [path for table in TABLES if is_made(path := table.path(self._lake.dir))]
            tables = [TableLog(self._session, path) for path in paths]
            if tables:
                self._take(tables)
                self._taken, self.has_taken = tables, True

    def _take(self, tables: list[TableLog]) -> None:
        for _ in range(_ATTEMPTS_MAX):
            found = [number_of(table.look()) for table in tables]
            last = max(found)
            if self.has_taken and last > self.number:
                raise taken(tables[found.index(last)].place)
            if not last and not self._is_shared():
                return
            wanted = self.number or last + 1
            if self._take_all(tables, wanted):
                self.number = wanted
                return
        raise LakeTaken("other drivers take the lake again and again: none of them gets it")

    def _take_all(self, tables: list[TableLog], wanted: int) -> bool:
        """False when others came in between: nothing is known then."""
        for table in tables:
            snapshot = table.look()
            found = number_of(snapshot)
            if found > wanted or (found == wanted and not self.number):
                return False
            if found < wanted and not _set_number(table, snapshot, wanted):
                return False
        return True

    def _is_shared(self) -> bool:
        """Whether the lake may be written from other machines, whose locks this one's may not know."""
        java_session: Any = self._session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        return is_object(self._lake.dir) or self._lake.shared or not java_session.sparkContext().isLocal()

    def check(self, table: str, snapshot: Any) -> None:
        """Raises `LakeTaken` when that version of the table is a later driver's."""
        if self.has_taken and number_of(snapshot) > self.number:
            raise taken(table)

    def check_now(self) -> None:
        """The same of the last versions of what it has taken, with a number or without, by what is in the folders. A
        log that can't be read says nothing."""
        for table in self._taken:
            with suppress(Py4JJavaError):
                self.check(table.place, table.look())


def taken(place: str) -> LakeTaken:
    return LakeTaken(f"another driver has taken {place}: this one was thought dead, and commits nothing more")


def number_of(snapshot: Any) -> int:
    """The driver that a version of a table says; 0: none."""
    found = snapshot.metadata().configuration().get(PROPERTY)
    return int(found.get()) if found.isDefined() else 0


def _set_number(table: TableLog, snapshot: Any, number: int) -> bool:
    """Whether it was set; not when somebody else changed the table's metadata since that version."""
    transaction = table.begin(snapshot)
    old = snapshot.metadata()
    configuration = old.configuration().updated(PROPERTY, str(number))
    new = old.copy(
        *(old.id(), old.name(), old.description(), old.format(), old.schemaString()),
        *(old.partitionColumns(), configuration, old.createdTime()),
    )
    operation = delta_class(table.jvm, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    try:
        transaction.updateMetadata(new, False)
        transaction.commit(table.nothing, operation)
    except Py4JJavaError as error:
        if _CONFLICTS in str(error.java_exception.toString()):
            return False
        raise LakeUnreadable(f"the driver's number can't be set in {table.place}: {error.java_exception}") from error
    return True
