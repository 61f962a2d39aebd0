"""A Delta table's log, as Spark's JVM has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_DELTA = "org.apache.spark.sql.delta"


def java_class(jvm: Any, name: str) -> Any:
    """The class with this full name. `jvm.org.apache…` would have the JVM search all jars for `org`, then for
    `org.apache`, and so on, each time: 0.7 ms of CPU, where the full name takes 0.02."""
    return getattr(jvm, name)


def delta_class(jvm: Any, name: str) -> Any:
    """The class of Delta's with this name in its package, such as `actions.SetTransaction`."""
    return java_class(jvm, f"{_DELTA}.{name}")


def action_of(jvm: Any, text: str) -> Any:
    """The action of Delta's that this JSON describes."""
    return delta_class(jvm, "actions.Action$").__getattr__("MODULE$").fromJson(text)


def look_at(session: SparkSession, place: str) -> Any:
    """The last version of the table at `place`, a path or URL as the catalog has it, by what is in the folder."""
    none = _none(session._jvm)  # pyright: ignore[reportPrivateUsage]
    return _log_at(session, place).update(False, none, none)


def _log_at(session: SparkSession, place: str) -> Any:
    """What the JVM knows of it: the same for all who write the table. Delta forgets it an hour after somebody has
    asked for it last, so it is asked for each time."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return delta_class(jvm, "DeltaLog").forTable(java_session, place)


def _none(jvm: Any) -> Any:
    return java_class(jvm, "scala.Option").empty()


class TableLog:
    """Of the table at `path`."""

    def __init__(self, session: SparkSession, path: Path) -> None:
        self.path = path
        self.jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        self._session = session

    @property
    def known(self) -> Any:
        """What the JVM knows of it, which is asked for each time."""
        return _log_at(self._session, str(self.path))

    def look(self) -> Any:
        """The last version, by what is in the folder."""
        return look_at(self._session, str(self.path))

    def begin(self, snapshot: Any) -> Any:
        """A transaction that has read that version."""
        return self.known.startTransaction(self.none, java_class(self.jvm, "scala.Some")(snapshot))

    def clean_up(self) -> None:
        """Removes the entries that are past the table's own retention. Delta does it by whole days, and after every
        hundredth commit; here by the hour, also of a table that rests."""
        hour = delta_class(self.jvm, "TruncationGranularity$").__getattr__("MODULE$").HOUR()
        self.known.cleanUpExpiredLogs(self.look(), self.none, self.none, hour)

    @property
    def none(self) -> Any:
        """Scala's."""
        return _none(self.jvm)

    @property
    def nothing(self) -> Any:
        """Scala's empty list."""
        return java_class(self.jvm, "scala.collection.immutable.Nil$").__getattr__("MODULE$")
