"""What a statement has made in Spark's catalog is not made again as long as it is as it was: to plan the views takes
half a second of processor time, which each start of the lake query, each erasure and each new table would take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

_DATABASE = "default"

_made: WeakKeyDictionary[SparkContext, dict[str, tuple[str, str]]] = WeakKeyDictionary()
"""By JVM: for each name the statement, and what the catalog had by that name once it was executed. All sessions of a
JVM share the catalog, so a client may have put something else there since."""


class Made:
    """Executes statements that make something, or replace it. Safe from any thread."""

    def __init__(self, session: SparkSession) -> None:
        java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        self._session = session
        self._catalog: Any = java_session.sharedState().externalCatalog()
        self._in_session: Any = java_session.sessionState().catalog()
        self._known = _made.setdefault(session.sparkContext, {})

    def view(self, name: str, statement: str) -> None:
        """A view that lasts."""
        self._make(name, statement, self._look_at_view)

    def live_view(self, name: str, statement: str) -> None:
        """A global temporary view."""
        self._make(f"live.{name}", statement, lambda _: self._look_at_live_view(name))

    def function(self, name: str, statement: str) -> None:
        """A function of SQL that lasts."""
        self._make(f"{name}()", statement, lambda _: self._look_at_function(name))

    def _make(self, name: str, statement: str, look: Callable[[str], str | None]) -> None:
        found = look(name)
        if found is None or self._known.get(name) != (statement, found):
            self._known.pop(name, None)
            self._session.sql(statement)
            made = look(name)
            if made is not None:
                self._known[name] = statement, made

    def _look_at_view(self, name: str) -> str | None:
        return _all_of(self._catalog.getTable(_DATABASE, name)) if self._catalog.tableExists(_DATABASE, name) else None

    def _look_at_live_view(self, name: str) -> str | None:
        found = self._in_session.getRawGlobalTempView(name)
        return _all_of(found.get().tableMeta()) if found.isDefined() else None

    def _look_at_function(self, name: str) -> str | None:
        if not self._catalog.functionExists(_DATABASE, name):
            return None
        return str(self._catalog.getFunction(_DATABASE, name).toString())


def _all_of(table: Any) -> str:
    """What the catalog says of a view, when it was made, and a hash of what it doesn't say: the view's own conf."""
    return f"{table.hashCode()} {table.createTime()} {table.toString()}"
