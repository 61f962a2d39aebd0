"""One statement: looked at as it is parsed and as it is analyzed, and run in a session of its own, over views that have
the rows which who asks may see."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from lakemq.jobs.errors import NotServed
from lakemq.jobs.served.own_table import is_own_name, topic_of_own
from lakemq.jobs.served.packed import PACKED, pack, unpack
from lakemq.jobs.served.readable import SERVED, Rows, condition_of
from lakemq.jobs.sql.analyzed_plan import AnalyzedWalk
from lakemq.jobs.sql.connect_client import complaint
from lakemq.jobs.sql.parsed_plan import Relation, Walk
from lakemq.jobs.sql.place import place_in
from lakemq.jobs.sql.text import place_of
from lakemq.jobs.sql.topic_tables import DATABASE, topic_of
from lakemq.model.errors import Busy, InvalidSql, LakemqError, RequestTimeout
from lakemq.model.sight import ANYBODY, Sight
from lakemq.model.spark_sql import quoted

POOL = "sql"
MESSAGES = "messages"
BARRIER = "spark_partition_id"
COLUMNS_MAX = 1_000
HEADER_BYTES_MAX = 256 * 1024
"""Of names and types of an answer's columns."""
BROADCAST_BYTES_MAX = 128 * 1024 * 1024
"""Of one side of a join, in memory. Spark counts whole pages: of a few rows whose key is a number, 64 MiB."""
_CAUSES_MAX = 10
_ERROR_CLASS = re.compile(r"\s*\[(?!INTERNAL_ERROR)[A-Z_.0-9]+\]")
_BATCH_BYTES = 4 * 1024 * 1024

CONF = {
    # Else `${env:…}` in a statement would be what the jobs' environment has.
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    # What is held in memory at once, whatever the rows are.
    "spark.sql.maxBroadcastTableSize": str(BROADCAST_BYTES_MAX),
    "spark.sql.autoBroadcastJoinThreshold": str(8 * 1024 * 1024),
    # Between two looks whether a task is to end there are so many rows.
    "spark.sql.parquet.columnarReaderBatchSize": "64",
    "spark.sql.execution.topKSortFallbackThreshold": "1000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
}


@dataclass(frozen=True)
class Bounds:
    """Of one answer."""

    rows_max: int
    bytes_max: int


@dataclass(frozen=True)
class Found:
    """The rows; `truncated`: there are more."""

    schema: pa.Schema
    types: tuple[str, ...]
    batches: list[pa.RecordBatch]
    truncated: bool


@dataclass
class Statement:
    """One of somebody's. Only its own thread runs it, and any may cancel it."""

    spark: SparkSession
    text: str
    group: str = field(default_factory=lambda: f"sql-{secrets.token_hex(8)}")
    relations: list[Relation] = field(default_factory=list[Relation])
    cancelled: bool = False
    _session: SparkSession | None = None
    _rewritten: _Rewritten | None = None
    _lock: Lock = field(default_factory=Lock)

    def parse(self) -> list[str]:
        """The tables that it names. Raises `InvalidSql`."""
        self._session = session = self._own_session()
        self.relations = self._walked(session, self.text, None).relations
        for each in self.relations:
            if _served(each) is None and not _is_of_topic(_name(each)):
                raise NotServed(_unknown(each), *place_of(self.text, each.start))
        # A topic's table has rows of `messages`.
        return [MESSAGES if _is_of_topic(_name(each)) else each.parts[-1].lower() for each in self.relations]

    def run(self, sights: Sequence[Sight], bounds: Bounds) -> Found:
        """Its rows. Raises `InvalidSql`, `Busy`, and `RequestTimeout` once it is cancelled."""
        session = self._session
        assert session is not None
        try:
            frame = self._analyzed(session, sights)
            return self._rows(session, frame, bounds)
        except LakemqError:
            raise
        except (PySparkException, Py4JError) as error:
            if self.cancelled:
                raise RequestTimeout("the statement was cancelled") from None
            raise _explained(error, self._rewritten) from None

    def cancel(self) -> None:
        """Ends its tasks, and those that it would begin."""
        with self._lock:
            self.cancelled = True
        context: Any = self.spark.sparkContext
        context._jsc.sc().cancelJobGroupAndFutureJobs(self.group, "the statement was cancelled")

    # ------------------------------------------------------------------------------------------

    def _own_session(self) -> SparkSession:
        """For this statement alone: what is temporary in it, nobody else sees. It becomes the thread's active one, by
        which the parser takes its conf."""
        own = self.spark.newSession()
        jvm: Any = own._jvm  # pyright: ignore[reportPrivateUsage]
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(_java(own))
        for key, value in CONF.items():
            own.conf.set(key, value)
        return own

    def _walked(self, session: SparkSession, text: str, rewritten: _Rewritten | None) -> _Parsed:
        try:
            plan = _java(session).sessionState().sqlParser().parsePlan(text)
        except PySparkException as error:
            raise _explained(error, rewritten) from None
        except Py4JJavaError as error:
            raise InvalidSql(_java_reason(error)) from None
        walk = Walk()
        walk.check(plan)
        return _Parsed(plan, walk.relations)

    def _analyzed(self, session: SparkSession, sights: Sequence[Sight]) -> DataFrame:
        """The statement over views of its own, whose names stand where the tables' did."""
        mark = secrets.token_hex(6)
        views: dict[tuple[str, ...], str] = {}
        for each in self.relations:
            name = _name(each)
            if name not in views:
                views[name] = f"lakemq_{mark}_{len(views)}"
                if not _is_of_topic(name):
                    _make_view(session, name, views[name], sights)
                elif not _make_view_of_topic(session, name, views[name], sights):
                    raise NotServed(_unknown(each), *place_of(self.text, each.start))
        self._rewritten = rewritten = _Rewritten.of(self.text, self.relations, views)
        parsed = self._walked(session, rewritten.text, rewritten)
        own = {(name,) for name in views.values()}
        if any(_name(each) not in own for each in parsed.relations):
            raise NotServed("the statement names a table in a way that isn't served")
        jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        try:
            java_frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(_java(session), parsed.plan)
            AnalyzedWalk(frozenset(views.values())).check(java_frame.queryExecution().analyzed())
        except PySparkException as error:
            raise _explained(error, rewritten) from None
        except Py4JJavaError as error:
            raise InvalidSql(_java_reason(error)) from None
        return ClassicDataFrame(java_frame, session)

    def _rows(self, session: SparkSession, frame: DataFrame, bounds: Bounds) -> Found:
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        types = tuple(each.dataType.simpleString() for each in frame.schema)
        _check_columns(schema, types)
        context = session.sparkContext
        context.setJobGroup(self.group, "POST /v1/sql", interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", POOL)
        # Spark finds columns for Python by their names, and here two may have the same.
        numbered = frame.toDF(*(f"c{at}" for at in range(len(types))))
        packed = numbered.mapInArrow(pack(bounds.rows_max + 1, bounds.bytes_max), PACKED)
        batches, truncated = self._bounded(packed, bounds)
        if batches:  # as it came: what Spark says of a type beforehand may be less
            schema = pa.schema(
                [field.with_name(name) for field, name in zip(batches[0].schema, schema.names, strict=True)]
            )
        named = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
        return Found(schema, types, named, truncated)

    def _bounded(self, packed: DataFrame, bounds: Bounds) -> tuple[list[pa.RecordBatch], bool]:
        """So much as an answer has of the rows, and whether that isn't all."""
        batches: list[pa.RecordBatch] = []
        rows, size = 0, 0
        for row in packed.toLocalIterator():
            if self.cancelled:
                raise RequestTimeout("the statement was cancelled")
            for batch in unpack(row["data"]):
                if size + batch.nbytes > bounds.bytes_max:
                    return batches, True
                part = batch.slice(0, bounds.rows_max - rows)
                batches += [part] if part.num_rows else []
                if part.num_rows < batch.num_rows:
                    return batches, True
                rows, size = rows + part.num_rows, size + part.nbytes
            if row["full"]:
                return batches, True
        return batches, False


@dataclass(frozen=True)
class _Parsed:
    plan: Any
    relations: list[Relation]


@dataclass(frozen=True)
class _Rewritten:
    """A text with other names of tables in it. `moves`: from where on in it how much longer it is."""

    before: str
    text: str
    moves: tuple[tuple[int, int], ...]

    @staticmethod
    def of(text: str, relations: Sequence[Relation], views: dict[tuple[str, ...], str]) -> _Rewritten:
        parts: list[str] = []
        moves: list[tuple[int, int]] = []
        at, moved = 0, 0
        for each in sorted(relations, key=lambda each: each.start):
            named = f"`{views[_name(each)]}`"
            # Columns are named by it: `messages.topic`.
            named += "" if each.has_alias else f" AS `{_name(each)[-1]}`"
            parts += [text[at : each.start], named]
            at = each.stop + 1
            moved += len(named) - (at - each.start)
            moves.append((at + moved, moved))
        parts.append(text[at:])
        return _Rewritten(text, "".join(parts), tuple(moves))

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Where in the text before it that is."""
        lines = self.text.split("\n")
        at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
        moved = 0
        for since, by in self.moves:
            moved = by if at >= since else moved
        return place_of(self.before, max(min(at - moved, len(self.before)), 0))


def _make_view(session: SparkSession, name: tuple[str, ...], view: str, sights: Sequence[Sight]) -> None:
    rows = SERVED[name]
    try:
        frame = session.table(".".join(f"`{part}`" for part in name))
    except PySparkException:
        raise Busy(f"{'.'.join(name)} isn't there yet: the jobs are starting, try again in some seconds") from None
    condition = condition_of(rows, sights)
    if condition is not None:
        # Nothing of the statement comes to a row before it is known that who asks may see it: Spark moves no condition
        # past one that isn't deterministic. Else an error, such as a division by zero, would tell of other rows. It is
        # not rand(), of which Spark knows how large it is: it leaves such a condition out.
        frame = frame.where(condition).where(f"{BARRIER}() >= 0")
    frame.createOrReplaceTempView(view)


def _make_view_of_topic(session: SparkSession, name: tuple[str, ...], view: str, sights: Sequence[Sight]) -> bool:
    """Whether there is such a table, all of whose rows are seen: of one that isn't, nobody learns that there is one."""
    is_own = is_own_name(name)
    topic = topic_of_own(session, name[0]) if is_own else topic_of(session, name[1])
    if topic is None or not all(sight.sees_topic(topic) for sight in sights):
        return False
    try:
        frame = session.table(f"default.`{name[0]}`" if is_own else f"{DATABASE}.{quoted(name[1])}")
        if not is_own and any(sight != ANYBODY for sight in sights):
            # As above: the view is over the messages of all topics. The topic's own table has no others.
            frame = frame.where(f"{BARRIER}() >= 0")
        frame.createOrReplaceTempView(view)
    except PySparkException:  # it is being replaced
        raise Busy(f"{'.'.join(name)} isn't there yet") from None
    return True


def _check_columns(schema: pa.Schema, types: Sequence[str]) -> None:
    if len(types) > COLUMNS_MAX:
        raise InvalidSql(f"an answer has {COLUMNS_MAX} columns at most")
    names: Sequence[str] = schema.names
    if schema.serialize().size + sum(len(each.encode()) for each in (*names, *types)) > HEADER_BYTES_MAX:
        raise InvalidSql(f"names and types of an answer's columns have {HEADER_BYTES_MAX} bytes at most")


def _name(relation: Relation) -> tuple[str, ...]:
    return tuple(part.lower() for part in relation.parts)


def _is_of_topic(name: tuple[str, ...]) -> bool:
    """Whether it is that of a topic's table, the view or its own one, if there is one."""
    return (len(name) == 2 and name[0] == DATABASE) or is_own_name(name)


def _served(relation: Relation) -> Rows | None:
    return SERVED.get(_name(relation))


def _unknown(relation: Relation) -> str:
    shown = ".".join(relation.parts)[:200]
    there = ", ".join(".".join(name) for name in SERVED)
    of_topics = "topics.NAME of topics with a schema, topic_NAME of those with a table of their own"
    return f"there is no table {shown!r} here; there are {there}, {of_topics}"


def _java(session: SparkSession) -> Any:
    return session._jsparkSession  # pyright: ignore[reportPrivateUsage]


def _java_reason(error: Py4JJavaError) -> str:
    kind = str(error.java_exception.getClass().getSimpleName())
    return (
        "the statement is too deep: make it simpler" if kind == "StackOverflowError" else f"Spark can't take it: {kind}"
    )


def _explained(error: Exception, rewritten: _Rewritten | None = None) -> InvalidSql:
    """What Spark says of a statement, in a line, and where."""
    said = _said_in_java(error) if isinstance(error, Py4JJavaError) else str(error)
    origin = getattr(error, "_origin", None)
    line = column = None
    try:
        if origin is not None and origin.line().isDefined() and origin.startPosition().isDefined():
            line, column = origin.line().get(), origin.startPosition().get() + 1
    except (AttributeError, TypeError, Py4JError):
        pass
    if line is None or column is None:  # an error of a row
        line, column = place_in(said)
    if line is not None and column is not None and rewritten is not None:
        line, column = rewritten.place(line, column)
    return InvalidSql(complaint(said).partition("; line ")[0], line, column)


def _said_in_java(error: Py4JJavaError) -> str:
    """What Spark says of the statement, which may be the cause of a cause. Of any other failure only the kind: its
    message is about this machine."""
    cause: Any = error.java_exception
    for _ in range(_CAUSES_MAX):
        said = None if cause is None else cause.getMessage()
        if said is not None and _ERROR_CLASS.match(said):
            return said
        cause = None if cause is None else cause.getCause()
    return _java_reason(error)
