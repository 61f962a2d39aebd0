"""What SQL finds by name: the lake's tables, views over them, and functions.

The catalog is in the JVM's memory and the same in all its sessions. Nothing of it is kept: it is
made anew from the lake's folder at each start.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakemq.jobs.session.connect import LIVE
from lakemq.jobs.sql.made import Made
from lakemq.jobs.tables.schemas import SCHEMAS
from lakemq.jobs.tables.table_log import java_class
from lakemq.jobs.tables.tables import MESSAGES, TABLES
from lakemq.model.dead_letter import Fact, state_in_sql
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.model.ids import MESSAGE_ID_PATTERN, NONCE_PATTERN
from lakemq.model.names import AUDIT_TOPIC, DEAD_LETTER_PREFIX, DISCARD_TOPIC, GROUP_TOPIC, RETRY_PREFIX
from lakemq.model.spark_sql import literal, quoted
from lakemq.storage.lake.delta_log import made_tables_of

TOPICS_TOPIC = "RMQ_SYS_TOPICS"

logger = logging.getLogger(__name__)

_IS_SYSTEM = "({0} = 'SCHEDULE_TOPIC_XXXX' OR startswith({0}, 'RMQ_SYS_') OR startswith({0}, '%'))"

_FUNCTIONS = {
    "body_text(body BINARY)": ("STRING", "try_validate_utf8(CAST(body AS STRING))"),
    "body_json(body BINARY)": ("VARIANT", "try_parse_json(try_validate_utf8(CAST(body AS STRING)))"),
    "has_tag(tag STRING, tags STRING)": (
        "BOOLEAN",
        "trim(tags) IN ('', '*') OR (tag IS NOT NULL AND exists(split(tags, '[|][|]'), part -> trim(part) = tag))",
    ),
    "is_system(topic STRING)": ("BOOLEAN", _IS_SYSTEM.format("topic")),
    "position_of(message_id STRING)": (
        "BIGINT",
        f"try_cast(regexp_extract(message_id, '^{MESSAGE_ID_PATTERN}$', 3) AS BIGINT)",
    ),
    "broker_of(message_id STRING)": (
        "STRING",
        f"nullif(regexp_extract(message_id, '^{MESSAGE_ID_PATTERN}$', 1), '')",
    ),
    "half_of(transaction_id STRING)": ("STRING", f"regexp_replace(transaction_id, '{NONCE_PATTERN}$', '')"),
}
"""Bytes that are no UTF-8, and text that is no JSON or message id, are NULL."""

_TOPICS = f"""
SELECT broker, change.topic AS topic, max_by(change.queues, position) AS queues,
  max_by(change.permission, position) AS permission, max_by(change.op, position) = 'delete' AS deleted,
  {_IS_SYSTEM.format("change.topic")} AS system,
  min(store_time) AS created_at, max(store_time) AS changed_at
FROM (SELECT broker, position, store_time,
    from_json(CAST(body AS STRING), 'op STRING, topic STRING, queues INT, permission STRING') AS change
  FROM {{messages}} WHERE topic = '{TOPICS_TOPIC}')
GROUP BY broker, change.topic
"""  # noqa: S608 (names of our own)

_OFFSETS = f"""
SELECT group, topic, queue_id, offset, kind, committed_at, broker, position
FROM (SELECT *, row_number() OVER (PARTITION BY broker, group, topic, queue_id ORDER BY position) AS nth
  FROM (SELECT *, greatest(greatest_known, 0) > known AS stale, max(life) OVER (PARTITION BY broker, group) AS last_life
    FROM (SELECT *, max(known) OVER (PARTITION BY broker, group ORDER BY position
        RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS greatest_known
      FROM (SELECT *, change.resets - count_if(tag = 'reset') OVER (PARTITION BY broker, group ORDER BY position
          RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS known
        FROM (SELECT broker, position, group, tag, tag AS kind, store_time AS committed_at,
            count_if(tag = 'delete') OVER (PARTITION BY broker, group ORDER BY position
              RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS life,
            from_json(CAST(body AS STRING),
              'offsets MAP<STRING, ARRAY<ARRAY<BIGINT>>>, if_absent BOOLEAN, resets BIGINT') AS change
          FROM {{messages}} WHERE topic = '{GROUP_TOPIC}' AND tag IN ('offsets', 'reset', 'delete')))))
  LATERAL VIEW explode(change.offsets) AS topic, pairs
  LATERAL VIEW explode(pairs) AS pair
  LATERAL VIEW inline(array(struct(CAST(pair[0] AS INT), pair[1]))) AS queue_id, offset
  WHERE NOT coalesce(stale, false) AND life = last_life)
WHERE nth = 1 OR NOT coalesce(change.if_absent, false)
"""  # noqa: S608 (names of our own)
"""Every commit that counted (docs/groups.md). A commit that knew of fewer resets than one before it,
resets since then added, is stale; `if_absent` counts where it is the first of its queue. A group that is deleted begins
anew."""

GONE_MAX = 10_000
"""So many letters that are gone, one after the other, have a row each."""
_GONE_COLUMNS = ("broker", "topic", "queue_id", "queue_offset", "group")
_GONE = ", ".join(
    name if name in _GONE_COLUMNS else f"CAST(NULL AS {kind}) AS {name}" for name, kind in MESSAGES.columns.items()
)
_DEAD = f"""
SELECT {", ".join(MESSAGES.columns)} FROM {{messages}} WHERE startswith(topic, '{DEAD_LETTER_PREFIX}')
UNION ALL
SELECT {_GONE} FROM (
  SELECT broker, topic, queue_id, substr(topic, {len(DEAD_LETTER_PREFIX) + 1}) AS group,
    explode(sequence(greatest(first_gone, last_gone - {GONE_MAX - 1}), last_gone)) AS queue_offset
  FROM (SELECT broker, topic, queue_id, queue_offset - 1 AS last_gone,
      coalesce(lag(queue_offset) OVER (PARTITION BY broker, topic, queue_id ORDER BY queue_offset) + 1, 0) AS first_gone
    FROM {{messages}} WHERE startswith(topic, '{DEAD_LETTER_PREFIX}'))
  WHERE first_gone <= last_gone)
"""  # noqa: S608 (names of our own)
"""Dead letters, and of each that is stored no more, before one that is, a row with its place alone; of many in a row of
the newest only, as there may be any number."""

_STATE = state_in_sql(
    {
        Fact.UNSTORED: "dead.position IS NULL",
        Fact.COPIED: "again.redriven_at IS NOT NULL",
        Fact.GIVEN_UP: "discarded.at IS NOT NULL",
        Fact.UNREACHABLE: "deleted.position > dead.position",
    }
)

_DEAD_LETTERS = f"""
SELECT dead.*, dead.properties['{FAILURE_CLASS}'] AS failure_class, dead.properties['{FAILURE_TEXT}'] AS failure_text,
  dead.store_time AS failed_at,
  CASE WHEN dead.position IS NOT NULL THEN coalesce(dead.reconsume_times, 0) + 1 END AS deliveries,
  {_STATE} AS state, again.redriven_at, discarded.at AS discarded_at
FROM ({_DEAD}) AS dead
LEFT JOIN (SELECT broker, cause, min(store_time) AS redriven_at FROM {{messages}}
  WHERE startswith(topic, '{RETRY_PREFIX}') AND cause IS NOT NULL AND coalesce(reconsume_times, 0) = 0
  GROUP BY broker, cause) AS again ON again.broker = dead.broker AND again.cause = dead.position
LEFT JOIN (SELECT broker, change.topic AS topic, max(position) AS position
  FROM (SELECT broker, position, from_json(CAST(body AS STRING), 'op STRING, topic STRING') AS change
    FROM {{messages}} WHERE topic = '{TOPICS_TOPIC}')
  WHERE change.op = 'delete' GROUP BY broker, change.topic) AS deleted
  ON deleted.broker = dead.broker AND deleted.topic = dead.topic
LEFT JOIN (SELECT broker, topic, cause, min(store_time) AS at
  FROM (SELECT broker, '{DEAD_LETTER_PREFIX}' || group AS topic, store_time,
      from_json(CAST(body AS STRING), 'ranges ARRAY<ARRAY<BIGINT>>').ranges AS ranges
    FROM {{messages}} WHERE topic = '{DISCARD_TOPIC}')
  LATERAL VIEW explode(ranges) AS named
  LATERAL VIEW explode(sequence(named[0], named[1])) AS cause
  GROUP BY broker, topic, cause) AS discarded
  ON discarded.broker = dead.broker AND discarded.topic = dead.topic AND discarded.cause = dead.position
"""  # noqa: S608 (names of our own)
"""A redrive's copy is the one kind of retry that was tried no time before, and its cause is the dead letter. With its
group its topic was deleted, and no redrive finds it any more."""

_AUDIT = f"""
SELECT store_time AS at, what.user AS user, what.source AS source, tag AS outcome, what.what AS what, what.why AS why,
  what.times AS times, what.missed AS missed, what.request_id AS request_id, broker, position
FROM (SELECT *, from_json(CAST(body AS STRING),
    'user STRING, source STRING, what STRING, why STRING, times BIGINT, missed BIGINT, request_id STRING') AS what
  FROM {{messages}} WHERE topic = '{AUDIT_TOPIC}')
"""  # noqa: S608 (names of our own)
"""Who did what, and who was refused (docs/security.md)."""

_COLUMNS = {table.name: table.columns for table in TABLES} | {
    name: {field.name: field.dataType.simpleString() for field in from_arrow_schema(schema)}
    for name, schema in SCHEMAS.items()
}
"""Of each table that a lake has sooner or later."""

VIEWS = {"topics": _TOPICS, "consumer_offsets": _OFFSETS, "dead_letters": _DEAD_LETTERS, "audit": _AUDIT}
"""By name; made over `messages`, and over `live.all_messages` too."""

ALL = "all_"
"""A live view whose name begins so has the broker's own topics too. The one of the same name without it hides them."""
HIDING = ("messages", "consume_queue", "message_index", "topics")


def register_catalog(session: SparkSession, lake: Path) -> None:
    """Makes the lake's tables known by their folders' names, with the views and functions. A table that the lake will
    have, and has not yet, is there and empty.

    May be called again, when there are new tables. A table or a view of that name elsewhere is forgotten.
    All sessions share the catalog, so a client may have put something in the way: what can't be made is
    a warning.
    """
    names = _table_names(lake)
    for name in names:
        with _warned(name):
            _register_table(session, name, lake.absolute() / name)
    made = Made(session)
    for signature, (kind, expression) in _FUNCTIONS.items():
        with _warned(signature):
            statement = f"CREATE OR REPLACE FUNCTION {signature} RETURNS {kind} RETURN {expression}"
            made.function(signature.partition("(")[0], statement)
    for name in _COLUMNS.keys() - set(names):
        with _warned(name):
            _register_empty(session, name, made)
    for name, query in VIEWS.items():
        with _warned(name):
            made.view(name, f"CREATE OR REPLACE VIEW {name} AS {query.format(messages='messages')}")


def find_table(session: SparkSession, name: str) -> Any:
    """What the catalog has by this name, as it says itself; None for nothing."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    catalog = java_session.sessionState().catalog()
    identifier = java_class(jvm, "org.apache.spark.sql.catalyst.TableIdentifier")(name)
    return catalog.getTableMetadata(identifier) if catalog.tableExists(identifier) else None


def lacks_tables(session: SparkSession, lake: Path) -> bool:
    """Whether a table of the lake is not known by its name: it is new, or a client has dropped it."""
    found = (find_table(session, name) for name in _table_names(lake))
    return any(each is None or each.tableType().name() == "VIEW" for each in found)


def _table_names(lake: Path) -> list[str]:
    return [path.name for path in made_tables_of(lake.absolute())]


@contextlib.contextmanager
def _warned(name: str) -> Generator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        logger.warning("can't make %s in Spark's catalog: %s", name, (str(error).splitlines() or ["?"])[0])


def register_live_views(session: SparkSession) -> None:
    """Makes the views over `live.all_messages`, which must be there; they follow it as it is replaced."""
    views = {ALL + name if name in HIDING else name: query for name, query in VIEWS.items()}
    views["topics"] = f"SELECT * FROM {LIVE}.{ALL}topics WHERE NOT system"  # noqa: S608 (names of our own)
    made = Made(session)
    for name, query in views.items():
        source = query.format(messages=f"{LIVE}.{ALL}messages")
        with _warned(f"{LIVE}.{name}"):
            made.live_view(name, f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW {name} AS {source}")


def put_live_view(rows: DataFrame, name: str) -> None:
    """Makes or replaces the live view of a table, and the one beside it that has the broker's own topics too."""
    rows.createOrReplaceGlobalTempView(ALL + name)
    rows.where(f"NOT {_IS_SYSTEM.format('topic')}").createOrReplaceGlobalTempView(name)


def _register_table(session: SparkSession, name: str, path: Path) -> None:
    found = find_table(session, name)
    if found is not None:
        if found.tableType().name() == "VIEW":
            session.sql(f"DROP VIEW {quoted(name)}")
        elif place_of(session, found) == str(path):
            return
        else:
            session.sql(f"DROP TABLE {quoted(name)}")
    session.sql(f"CREATE TABLE {quoted(name)} USING delta LOCATION {literal(str(path))}")


def _register_empty(session: SparkSession, name: str, made: Made) -> None:
    found = find_table(session, name)
    if found is not None and found.tableType().name() == "EXTERNAL":  # of a lake that had it
        session.sql(f"DROP TABLE {quoted(name)}")
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(column)}" for column, kind in _COLUMNS[name].items())
    made.view(name, f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT {nulls} WHERE false")


def place_of(session: SparkSession, table: Any) -> str:
    """Where a table that the catalog has is: its folder, or its URL, with nothing quoted."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    place = java_class(jvm, "org.apache.hadoop.fs.Path")(table.location())
    uri = place.toUri()
    return str(uri.getPath() if uri.getScheme() in {None, "file"} else place.toString())
