"""Types of the columns that a topic's schema makes: what Spark, Arrow and Delta all have, and no more."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.model.spark_sql import quoted

BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL = "boolean", "int", "bigint", "float", "double", "decimal"
STRING, BINARY, DATE, TIMESTAMP = "string", "binary", "date", "timestamp"
JSON = "json"
"""A string that holds JSON: of what may be of several types."""
ARRAY, MAP, STRUCT = "array", "map", "struct"

PRECISION_MAX = 38


class ColumnType(NamedTuple):
    """One type. `of`: of an ARRAY's elements, or a MAP's values; its keys are strings. `fields`: of a STRUCT.
    `precision`, `scale`: of a DECIMAL."""

    kind: str
    of: ColumnType | None = None
    fields: tuple[ColumnField, ...] = ()
    precision: int = 0
    scale: int = 0


class ColumnField(NamedTuple):
    """A column, or a field of a STRUCT. `required`: a body without it doesn't fit."""

    name: str
    type: ColumnType
    required: bool = False


def array_of(element: ColumnType) -> ColumnType:
    """An ARRAY of these."""
    return ColumnType(ARRAY, element)


def map_of(value: ColumnType) -> ColumnType:
    """A MAP from strings to these."""
    return ColumnType(MAP, value)


def struct_of(*fields: ColumnField) -> ColumnType:
    """A STRUCT with these fields."""
    return ColumnType(STRUCT, fields=fields)


def decimal(precision: int, scale: int) -> ColumnType:
    """A DECIMAL of so many digits, `scale` of them behind the point."""
    return ColumnType(DECIMAL, precision=precision, scale=scale)


def in_sql(type: ColumnType) -> str:
    """The type as Spark's SQL writes it."""
    if type.kind == DECIMAL:
        return f"decimal({type.precision},{type.scale})"
    if type.kind == STRUCT:
        return f"struct<{','.join(f'{quoted(each.name)}:{in_sql(each.type)}' for each in type.fields)}>"
    if type.of is not None:
        of = in_sql(type.of)
        return f"map<string,{of}>" if type.kind == MAP else f"array<{of}>"
    return STRING if type.kind == JSON else type.kind


def has_kind(type: ColumnType, kind: str) -> bool:
    """Whether it is of that kind, or anything in it is."""
    inner = (type.of,) if type.of is not None else tuple(each.type for each in type.fields)
    return type.kind == kind or any(has_kind(each, kind) for each in inner)
