"""A topic's own Delta table: its columns, how it is made and altered, and how far it holds the topic's messages.

Each commit holds rows and, for each broker, a transaction identifier of Delta that says up to which position: both or
neither. Where the types of columns change, the table begins anew: one commit takes all rows away, changes the columns,
and gives the table another life, whose identifiers say nothing yet.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakemq.jobs.tables.begun import clear_begun
from lakemq.jobs.tables.table import PROPERTIES, Layout
from lakemq.model.column_type import ColumnType, in_sql
from lakemq.model.spark_sql import literal, quoted
from lakemq.model.topic_columns import TYPES
from lakemq.model.topic_table import PREFIX, new_fields, table_name
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place, sql_place
from lakemq.storage.lake.delta_log import OF_TOPIC, is_made, made_tables_of
from lakemq.storage.lake.log_marks import LogMark, logs_of
from lakemq.storage.lake.progress import read_identifiers

TOPIC, LIFE = "lakemq.topic", "lakemq.life"
"""Properties of the table: of which topic it is, and what its identifiers begin with."""

STATISTICS = ("_time", "_broker", "_position", "_queue_id", "_offset")
_CLUSTERED_BY = "_time"
_LIFE_DIGITS = 12


class TopicTable(NamedTuple):
    """One that is there."""

    topic: str
    path: Path
    life: str

    def identifier(self, broker: str) -> str:
        """Of how far it holds that broker's messages."""
        return f"{OF_TOPIC}{self.life}-{broker}"

    def held(self, version: int | None = None) -> Held:
        """As of that version, or the last. Raises `TornEntry`, `OSError`."""
        version, identifiers = read_identifiers(self.path, version)
        begin = self.identifier("")
        positions = {
            name.removeprefix(begin): at for name, at in identifiers.items() if name.startswith(begin) and at >= 0
        }
        return Held(version, positions, logs_of(identifiers))


class Held(NamedTuple):
    """What a version of a topic's table holds: below these positions everything, and of which logs."""

    version: int
    positions: Mapping[str, int]
    logs: Mapping[str, LogMark]


def layout_of_topic_table(path: Path) -> Layout:
    """Of the one at that path."""
    return Layout(path, (_CLUSTERED_BY,), _CLUSTERED_BY)


def find_topic_table(lake: Path, topic: str) -> TopicTable | None:
    """That of the topic; None: there is none. Raises `DeltaError`, `OSError` where it can't be read."""
    path = lake.absolute() / table_name(topic)
    return _at(path) if is_made(path) else None


def topic_tables(lake: Path) -> Iterator[TopicTable]:
    """All that are in the lake, whether they are kept still or not."""
    for path in made_tables_of(lake.absolute()):
        if path.name.startswith(PREFIX) and (found := _at(path)) is not None:
            yield found


def _opened(path: Path) -> DeltaTable:
    return DeltaTable(delta_place(path), storage_options=delta_options(path))


def _at(path: Path) -> TopicTable | None:
    said = _opened(path).metadata().configuration
    if said.get(TOPIC) is None or said.get(LIFE) is None:
        return None  # somebody else's
    return TopicTable(said[TOPIC], path, said[LIFE])


def make_topic_table(session: SparkSession, lake: Path, topic: str, columns: ColumnType) -> tuple[TopicTable, bool]:
    """The topic's table with these columns: made, altered, or begun anew; and whether it is a new one, as SQL's catalog
    doesn't know it then. Raises `PySparkException`, `Py4JError`, `DeltaError`, `OSError`."""
    path = lake.absolute() / table_name(topic)
    there = is_made(path)
    present = json.loads(_opened(path).schema().to_json()) if there else {}
    lacking = new_fields(present, columns) if there else None
    if lacking is None:
        _begin(session, path, topic, columns, anew=there)
    elif lacking:
        added = ", ".join(f"{field.path} {field.type}" for field in lacking)
        session.sql(f"ALTER TABLE {sql_place(path)} ADD COLUMNS ({added})")
    found = _at(path)
    if found is None:
        raise DeltaError(f"{path} is a table of somebody else's: it can't be the one of topic {topic}")
    return found, not there


def _begin(session: SparkSession, path: Path, topic: str, columns: ColumnType, *, anew: bool) -> None:
    if anew and _at(path) is None:
        return
    kinds = {each.name: in_sql(each.type) for each in columns.fields} | TYPES
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    life = uuid.uuid4().hex[:_LIFE_DIGITS]
    own = {"delta.dataSkippingStatsColumns": ",".join(STATISTICS), TOPIC: topic, LIFE: life}
    properties = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in (PROPERTIES | own).items())
    layout = f"CLUSTER BY ({_CLUSTERED_BY}) TBLPROPERTIES ({properties})"
    # One commit takes the rows away, and changes columns and life: a kill leaves both as they were, or neither.
    made = "REPLACE" if anew else "CREATE"
    if not anew:
        clear_begun(session, path)
    session.sql(f"{made} TABLE {sql_place(path)} ({listed}) USING delta {layout}")
