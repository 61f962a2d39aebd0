"""The tables that are served, with their columns. Spark is asked rarely: a page asks each time that it is opened."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakemq.jobs.served.own_table import own_names, topic_of_own
from lakemq.jobs.served.readable import SERVED
from lakemq.jobs.sql.topic_tables import DATABASE, views_of_topics

KEPT_S = 30.0
STARTING_KEPT_S = 1.0
"""As long as some aren't there yet."""
TOPICS_KEPT_S = 5.0
"""Those of topics: who has just set a schema looks for its table."""
TOPICS_MAX = 100
"""So many of these are listed; others can be queried all the same."""
COLUMNS_MAX = 500
TYPE_CHARACTERS_MAX = 200
"""Of a table, and of a type that is spelled out: a struct's may be long."""

logger = logging.getLogger(__name__)


class Table(NamedTuple):
    """`parts` of its name; the name and type of each column; the topic whose messages it has, of a topic's."""

    parts: tuple[str, ...]
    columns: list[tuple[str, str]]
    topic: str | None = None


class Catalog:
    """That of one server. For any thread; one at a time asks Spark."""

    def __init__(self, spark: SparkSession, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._spark = spark
        self._clock_s = clock_s
        self._kept: tuple[float, list[Table]] | None = None
        self._topics_kept: tuple[float, list[Table]] = -math.inf, []
        self._own_kept: tuple[float, list[Table]] = -math.inf, []
        self._lock = Lock()

    def tables(self) -> list[Table]:
        """Those that are there now. One that no job has made yet is left out."""
        with self._lock:
            now_s = self._clock_s()
            if self._kept is None or now_s > self._kept[0]:
                found = [Table(parts, columns) for parts in SERVED if (columns := self._columns(parts)) is not None]
                kept_s = KEPT_S if len(found) == len(SERVED) else STARTING_KEPT_S
                self._kept = self._clock_s() + kept_s, found
            if now_s > self._topics_kept[0]:
                topics = self._of_topics()
                self._topics_kept = self._clock_s() + TOPICS_KEPT_S, topics
            if now_s > self._own_kept[0]:
                own = self._own_of_topics()
                self._own_kept = self._clock_s() + KEPT_S, own
            return self._kept[1] + self._topics_kept[1] + self._own_kept[1]

    def _of_topics(self) -> list[Table]:
        try:
            views = views_of_topics(self._spark, TOPICS_MAX)
        except (PySparkException, Py4JError) as error:  # one is being replaced
            logger.debug("can't list the tables of topics: %s", error)
            return []
        return [Table((DATABASE, each.name), _shown(each.columns), each.topic) for each in views]

    def _own_of_topics(self) -> list[Table]:
        """Spark reads the log of each, so they are looked at no more often than the lake's."""
        try:
            names = own_names(self._spark, TOPICS_MAX)
        except (PySparkException, Py4JError) as error:
            logger.debug("can't list the own tables of topics: %s", error)
            return []
        return [table for name in names if (table := self._own(name)) is not None]

    def _own(self, name: str) -> Table | None:
        try:
            topic = topic_of_own(self._spark, name)
        except (PySparkException, Py4JError) as error:
            logger.debug("can't look at %s: %s", name, error)
            return None
        columns = None if topic is None else self._columns((name,))
        return None if columns is None else Table((name,), columns, topic)

    def _columns(self, parts: tuple[str, ...]) -> list[tuple[str, str]] | None:
        try:
            schema = self._spark.table(".".join(f"`{part}`" for part in parts)).schema
        except (PySparkException, Py4JError) as error:
            logger.debug("%s has no columns yet: %s", ".".join(parts), error)
            return None
        return _shown(schema)


def _shown(columns: StructType) -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()[:TYPE_CHARACTERS_MAX]) for each in columns.fields[:COLUMNS_MAX]]
