"""The Delta table that a topic has of its own: its name, and which columns it can have.

Delta's JSON of a type is in its protocol, "Schema Serialization Format" (github.com/delta-io/delta, PROTOCOL.md).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple, cast

from lakemq.model.column_type import (
    ARRAY,
    BIGINT,
    DECIMAL,
    INT,
    JSON,
    MAP,
    STRING,
    STRUCT,
    ColumnType,
    in_sql,
)
from lakemq.model.errors import InvalidRequest
from lakemq.model.spark_sql import quoted
from lakemq.model.topic_columns import IN_TABLE_ONLY

PREFIX = "topic_"
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
"""Parquet's files of a Delta table have no such column, unless the table maps names, which older readers don't."""
_DELTA = {INT: "integer", BIGINT: "long", JSON: STRING}
_DIGITS = 12
_PLAIN = re.compile("[a-z0-9_]+")
_OTHERS = re.compile("[^a-z0-9_]")
_HASHED = re.compile(f"__[0-9a-f]{{{_DIGITS}}}$")


class NewField(NamedTuple):
    """A column to add, or a field of one. `path`: quoted for SQL. `type`: in SQL."""

    path: str
    type: str


def table_name(topic: str) -> str:
    """The table's folder in the lake, and its name in SQL, where it has letters, digits and `_` only. No two topics
    share one, though neither SQL nor every file system tells upper case from lower."""
    if _PLAIN.fullmatch(topic) and not _HASHED.search(topic):
        return PREFIX + topic
    readable = _OTHERS.sub("_", topic.lower())
    return f"{PREFIX}{readable}__{hashlib.sha256(topic.encode()).hexdigest()[:_DIGITS]}"


def check_storable(type: ColumnType, path: str = "") -> None:
    """Raise `InvalidRequest` where a Delta table can't have such columns."""
    if type.kind == STRUCT and not type.fields:
        raise InvalidRequest(f"{path or 'the body'} has no fields, and a Delta table has no such column")
    for field in type.fields:
        where = f"{path}.{field.name}".removeprefix(".")
        if not path and field.name.lower() in IN_TABLE_ONLY:
            raise InvalidRequest(
                f"{field.name!r} is a column of every topic's Delta table: a body's field can't have its name there"
            )
        if _FORBIDDEN & set(field.name):
            raise InvalidRequest(
                f"{where[:200]!r} can't be a column of a Delta table: a name there has no space and none of , ; {{ }} "
                "( ) ="
            )
        check_storable(field.type, where)
    if type.of is not None:
        check_storable(type.of, path)


def new_fields(present: Any, wanted: ColumnType) -> tuple[NewField, ...] | None:
    """What a table with these columns (a STRUCT as Delta's JSON has it) lacks of the wanted ones. None: a column has
    another type, so the table has to begin anew. A column that isn't wanted any more stays."""
    found: list[NewField] = []
    return tuple(found) if _compare(present, wanted, "", found) else None


def _compare(present: Any, wanted: ColumnType, path: str, found: list[NewField]) -> bool:
    if wanted.kind == STRUCT:
        return _is_nested(present, STRUCT) and _compare_fields(present["fields"], wanted, path, found)
    if wanted.of is not None:
        inner = {ARRAY: ("elementType", "element"), MAP: ("valueType", "value")}[wanted.kind]
        return _is_nested(present, wanted.kind) and _compare(present[inner[0]], wanted.of, f"{path}.{inner[1]}", found)
    if wanted.kind == DECIMAL:
        return bool(present == in_sql(wanted))
    return bool(present == _DELTA.get(wanted.kind, wanted.kind))


def _is_nested(present: Any, kind: str) -> bool:
    return isinstance(present, dict) and cast("dict[str, Any]", present).get("type") == kind


def _compare_fields(fields: list[dict[str, Any]], wanted: ColumnType, path: str, found: list[NewField]) -> bool:
    there = {each["name"].lower(): each for each in fields}
    for field in wanted.fields:
        where = f"{path}.{quoted(field.name)}".removeprefix(".")
        has = there.get(field.name.lower())
        if has is None:
            found.append(NewField(where, in_sql(field.type)))
        elif has["name"] != field.name or not _compare(has["type"], field.type, where, found):
            return False
    return True
