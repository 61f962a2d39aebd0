"""The views `topics.…`: the messages of each topic with a schema, live and historical, with the fields of their bodies
as columns.

A view of Spark's that lasts may not name one that is of the JVM only, as `live.messages` is, though it can: what makes
it is the property by which Spark knows such names. So the catalog is given the view as Spark has made one of the same
columns, with another text. What the text names is replaced with each version of `live.messages`; the view itself when
its schema changes.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.session.connect import LIVE
from lakemq.jobs.tables.topic_rows import ERROR, FIELDS, decoding
from lakemq.model.column_type import ColumnType, in_sql
from lakemq.model.errors import LakemqError, SchemaNotFound
from lakemq.model.schema import SchemaVersion, TopicSchemas, parse_schema
from lakemq.model.spark_sql import quoted
from lakemq.model.topic_columns import IN_VIEW, SOURCES

DATABASE = "topics"
TOPIC_PROPERTY = "lakemq.topic"
TABLES_MAX = 500
"""Each is planned anew whenever `live.messages` is."""
_TEMPLATE = "lakemq_template"
_REFERRED = "view.referredTempViewNames"
_RETRY_S = 1.0
_NAMES_SHOWN = 10
_DECODED = "lakemq decoded"

Versions = tuple[SchemaVersion, ...]

logger = logging.getLogger(__name__)


class TopicTables:
    """Those of a session's JVM. `brokers` says the addresses of gateways, with commas between. For any thread."""

    def __init__(self, session: SparkSession, brokers: Callable[[], str]) -> None:
        self._session = session
        self._brokers = brokers
        self._said: dict[str, dict[str, TopicSchemas]] = {}
        self._hidden: set[str] = set()
        self._all_said = True
        self._made: dict[str, Versions] = {}
        self._lock = Lock()

    def refresh(self, *, replaced: bool = False) -> None:
        """Asks the brokers which schemas there are, and makes the views of those that have changed; `replaced`: makes
        all views anew, as `live.messages` is another one. What can't be made is a warning."""
        with self._lock:
            if not (replaced and self._all_said):
                self._ask()
            wanted = self._wanted()
            try:
                self._make_all(wanted, replaced)
            except (PySparkException, Py4JError) as error:
                logger.warning("can't make the tables of topics: %s", _line(error))

    def _ask(self) -> None:
        """What each broker says; of one that is away, what it last did."""
        self._all_said = True
        addresses = [each for each in self._brokers().split(",") if each]
        for address in addresses:
            with closing(LogClient(address, _RETRY_S)) as client:
                try:
                    self._said[address] = client.topic_schemas()
                except BrokerUnavailable:
                    self._all_said = False
                except LakemqError as error:  # it may be an older one
                    logger.warning("can't get the schemas of %s: %s", address, error.detail)
        for gone in self._said.keys() - set(addresses):
            del self._said[gone]

    def _wanted(self) -> dict[str, tuple[str, Versions]]:
        """By the name of its view, a topic and its schema, as the brokers have said. A broker has no two topics with a
        schema that SQL takes for one, but two brokers may: the first by name has the view, whichever is newer."""
        found: dict[str, tuple[str, Versions]] = {}
        hidden: set[str] = set()
        for topic, versions in sorted(_newest(self._said.values()).items()):
            if found.setdefault(topic.lower(), (topic, versions))[0] != topic:
                hidden.add(topic)
        if hidden - self._hidden:
            names = ", ".join(f"{name} ({found[name.lower()][0]})" for name in sorted(hidden)[:_NAMES_SHOWN])
            logger.warning("SQL shows no table of these topics, as it can't tell them from others: %s", names)
        self._hidden = hidden
        if len(found) > TABLES_MAX:
            logger.warning("%d topics have schemas; %d of them are tables of SQL", len(found), TABLES_MAX)
        return {name: found[name] for name in sorted(found)[:TABLES_MAX]}

    def kept(self) -> dict[str, Versions]:
        """The topics of which a broker, as it last said, has the jobs keep a Delta table; each with its schema."""
        with self._lock:
            names = {topic for said in self._said.values() for topic, schemas in said.items() if schemas.table}
            return {topic: each for topic, each in _newest(self._said.values()).items() if topic in names}

    def _make_all(self, wanted: Mapping[str, tuple[str, Versions]], replaced: bool) -> None:
        catalog = _catalog(self._session)
        if wanted and not catalog.databaseExists(DATABASE):
            # Spark makes the folder where it isn't; nothing is ever put there.
            folder = Path(tempfile.gettempdir()).as_uri()
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE} LOCATION '{folder}'")
        there = set(_names(catalog)) if catalog.databaseExists(DATABASE) else set[str]()
        for name in there - wanted.keys():
            catalog.dropTable(DATABASE, name, True, True)
            self._session.catalog.dropGlobalTempView(f"{DATABASE}.{name}")
            self._made.pop(name, None)
        for name, (topic, versions) in wanted.items():
            is_made = name in there and self._made.get(name) == versions
            if is_made and not replaced:
                continue
            try:
                self._make(name, topic, versions, is_made)
                self._made[name] = versions
            except (PySparkException, Py4JError, LakemqError) as error:
                self._made.pop(name, None)
                logger.warning("can't make topics.%s in Spark's catalog: %s", name, _line(error))

    def _make(self, name: str, topic: str, versions: Versions, is_made: bool) -> None:
        current = versions[-1]
        columns = parse_schema(current.type, current.text).columns
        frame = rows_of(self._session.table(f"{LIVE}.all_messages"), topic, versions)
        frame.createOrReplaceGlobalTempView(quoted(f"{DATABASE}.{name}"))
        if not is_made:
            self._put_view(name, topic, columns, frame)

    def _put_view(self, name: str, topic: str, columns: ColumnType, frame: DataFrame) -> None:
        """The view of that name; while it is replaced there is none for a moment."""
        kinds = {each.name: in_sql(each.type) for each in columns.fields}
        nulls = ", ".join(
            f"CAST(NULL AS {kinds.get(each.name, each.dataType.simpleString())}) AS {quoted(each.name)}"
            for each in frame.schema
        )
        self._session.sql(f"CREATE OR REPLACE VIEW {_TEMPLATE} AS SELECT {nulls} WHERE false")
        catalog = _catalog(self._session)
        template = catalog.getTable("default", _TEMPLATE)
        view = _copied(self._session, template, name, topic)
        if catalog.tableExists(DATABASE, name):
            catalog.dropTable(DATABASE, name, True, True)
        catalog.createTable(view, True)
        self._session.sql(f"DROP VIEW {_TEMPLATE}")


def rows_of(messages: DataFrame, topic: str, versions: Versions) -> DataFrame:
    """The topic's messages as rows of its newest schema."""
    current = versions[-1]
    columns = parse_schema(current.type, current.text).columns

    def decode(bodies: pa.Array, times_ms: pa.Array) -> pa.Array:
        return decoding(versions)(bodies.to_pylist(), times_ms.to_pylist())

    arrow_udf: Any = sf.arrow_udf  # typed as a decorator alone
    decoded: Column = arrow_udf(decode, f"struct<{FIELDS}:{in_sql(columns)},{ERROR}:string>")(
        sf.col("body"), sf.unix_millis(sf.col("store_time"))
    )
    found = messages.where(sf.col("topic") == topic).select(
        *(sf.col(SOURCES[name]).alias(name) for name in IN_VIEW if name in SOURCES), decoded.alias(_DECODED)
    )
    body = found[quoted(_DECODED)]
    fields = [body.getField(FIELDS).getField(each.name).alias(each.name) for each in columns.fields]
    error = body.getField(ERROR).alias("_error")
    return found.select(*fields, *(name if name in SOURCES else error for name in IN_VIEW))


def with_columns(messages: DataFrame, topic: str, broker: str) -> DataFrame:
    """Of rows of `format("lakemq")`, of a stream too, those of the topic, as its table has them: by the schema that the
    broker at that address has for it now. Raises `SchemaNotFound`, `BrokerUnavailable`."""
    with closing(LogClient(broker, _RETRY_S)) as client:
        versions = client.schemas(topic).get(topic)
    if versions is None:
        raise SchemaNotFound(f"topic {topic[:200]!r} has no schema at {broker}")
    return rows_of(messages, topic, versions)


def topic_of(session: SparkSession, name: str) -> str | None:
    """Of which topic the view is; None: there is no such view."""
    catalog = _catalog(session)
    if not catalog.databaseExists(DATABASE) or not catalog.tableExists(DATABASE, name.lower()):
        return None
    return _topic_of_view(catalog.getTable(DATABASE, name.lower()))


def _topic_of_view(view: Any) -> str | None:
    found = view.properties().get(TOPIC_PROPERTY)
    return str(found.get()) if found.isDefined() else None


class TopicView(NamedTuple):
    """A topic's table, as the catalog has it."""

    name: str
    topic: str
    columns: StructType


def views_of_topics(session: SparkSession, most: int) -> list[TopicView]:
    """The tables that there are now, the first by name, with their columns: the catalog is asked once for each."""
    catalog = _catalog(session)
    found: list[TopicView] = []
    if not catalog.databaseExists(DATABASE):
        return found
    for name in sorted(_names(catalog)):
        if len(found) >= most:
            break
        view = catalog.getTable(DATABASE, name)
        topic = _topic_of_view(view)
        if topic is not None:
            found.append(TopicView(name, topic, StructType.fromJson(json.loads(view.schema().json()))))
    return found


def _copied(session: SparkSession, template: Any, name: str, topic: str) -> Any:
    """The view that Spark made, under another name and of another text."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    some = jvm.scala.Option.apply
    text = some(f"TABLE {LIVE}.{quoted(f'{DATABASE}.{name}')}")
    identifier = template.identifier().copy(name, some(DATABASE), template.identifier().catalog())
    properties = template.properties().updated(_REFERRED, json.dumps([[LIVE, f"{DATABASE}.{name}"]]))
    changed = {
        "identifier": identifier,
        "viewText": text,
        "viewOriginalText": text,
        "properties": properties.updated(TOPIC_PROPERTY, topic),
    }
    values = [
        changed.get(str(template.productElementName(at)), template.productElement(at))
        for at in range(template.productArity())
    ]
    return jvm.org.apache.spark.sql.catalyst.catalog.CatalogTable(*values)


def _catalog(session: SparkSession) -> Any:
    """What all sessions share. By Spark's own way to it such names as `my-topic` can be none."""
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return java_session.sharedState().externalCatalog()


def _names(catalog: Any) -> list[str]:
    iterator, found = catalog.listTables(DATABASE).iterator(), list[str]()
    while iterator.hasNext():
        found.append(str(iterator.next()))
    return found


def _newest(said: Iterable[Mapping[str, TopicSchemas]]) -> dict[str, Versions]:
    """By topic, the schema that counts of what brokers have said."""
    found: dict[str, Versions] = {}
    for each in said:
        for topic, schemas in each.items():
            if topic not in found or _rank(schemas.versions) > _rank(found[topic]):
                found[topic] = schemas.versions
    return found


def _rank(versions: Versions) -> tuple[int, int, str]:
    """Of two brokers' schemas of a topic, the one with more versions, or the one that was set later."""
    return versions[-1].version, versions[-1].created_ms, versions[-1].text


def _line(error: Exception) -> str:
    return (str(error).splitlines() or ["?"])[0]
