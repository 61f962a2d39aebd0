"""Of `verify`: whether topics' own tables have the messages that `messages` has of these topics, each once.

`messages` is read once for all of them, each table once. What is held in memory is a few numbers for each table; Spark
counts keys with room on disk. Rows are compared where the numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.maintenance.rebuild import is_below
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.digest import SAMPLE, Sums, differences, sums_by, sums_of
from lakemq.jobs.tables.topic_table import Held, TopicTable
from lakemq.model.topic_columns import SOURCES
from lakemq.storage.lake.progress import Progress

_KEY = ("broker", "queue_id", "position")
_BOUNDS = pa.schema(
    [("own_table", pa.string()), ("topic", pa.string()), ("broker", pa.string()), ("below", pa.int64())]
)


class _Table(NamedTuple):
    """`ends`: by broker the positions below which it is compared."""

    table: TopicTable
    held: Held
    ends: dict[str, int]


class TopicTablesVerified:
    """Compares them with one version of `messages`."""

    def __init__(
        self, work: Work, messages: DataFrame, progress: Progress, is_kept: Column, add: Callable[..., None]
    ) -> None:
        """`messages`: of the version that `progress` is of. `is_kept`: of a row with the names of `messages`, whether
        retention has not let it go. `add` is given each finding."""
        self._work, self._messages, self._progress = work, messages, progress
        self._is_kept, self._add = is_kept, add
        self._columns = [name for name in SOURCES.values() if name != "body" or work.options.verify_bodies]

    def verify(self) -> dict[str, int]:
        """How many rows were looked at, by table. Raises `DeltaError`, `TornEntry`, `OSError` where a table can't be
        read."""
        tables = [_Table(table, (held := table.held()), self._ends(held)) for table in self._work.topic_tables()]
        if not tables:
            return {}
        self._work.check()
        self._work.at("reads the messages of topics with tables of their own")
        rows = [
            (each.table.path.name, each.table.topic, broker, end)
            for each in tables
            for broker, end in each.ends.items()
        ]
        bounds = pa.Table.from_pylist([dict(zip(_BOUNDS.names, row, strict=True)) for row in rows], _BOUNDS)
        bounded = self._messages.join(
            F.broadcast(self._work.session.createDataFrame(bounds)), ["topic", "broker"]
        ).where("position < below")
        expected = sums_by(bounded, self._columns, "own_table")
        names = [each.table.path.name for each in tables]
        return {name: self._compare(each, expected.get(name, Sums())) for name, each in zip(names, tables, strict=True)}

    def _ends(self, held: Held) -> dict[str, int]:
        """Below these positions both have everything; one of the two may be ahead."""
        return {broker: min(end, self._progress.held.get(broker, 0)) for broker, end in held.positions.items()}

    def _compare(self, each: _Table, expected: Sums) -> int:
        self._work.check()
        name = each.table.path.name
        self._work.at(f"compares {name}")
        place = {"check": name, "topic": each.table.topic}
        logs = self._progress.logs
        for broker, mark in each.held.logs.items():
            if broker in logs and logs[broker].log_id != mark.log_id:
                self._add(**place, broker=broker, error="of another log than `messages`: `lakemq lake adopt` mends it")
        actual = self._rows(each)
        found, repeated = sums_of(actual, self._columns, _KEY)
        if repeated:
            twice = actual.groupBy(*_KEY).count().where("count > 1").limit(SAMPLE)
            self._add(**place, duplicates=repeated, sample=twice.toArrow().to_pylist())
        if found != expected:
            messages = self._messages.where((F.col("topic") == each.table.topic) & is_below(each.ends))
            difference = differences(messages, actual, self._columns, _KEY)
            self._add(**place, **difference._asdict())
        return found.rows

    def _rows(self, each: _Table) -> DataFrame:
        """All that it has but for what it held after that version of `messages`: nothing may be beyond what it says."""
        reader = self._work.session.read.format("delta").option("versionAsOf", each.held.version)
        rows = reader.load(str(each.table.path))
        named = rows.select(*(F.col(name).alias(source) for name, source in SOURCES.items()))
        later = is_below(dict(each.held.positions)) & ~is_below(each.ends)
        return named.withColumn("topic", F.lit(each.table.topic)).where(self._is_kept & ~later)
