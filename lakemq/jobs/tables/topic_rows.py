"""Bodies of a topic as columns of Arrow, where Spark's tasks run: what doesn't fit has an error instead of fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakemq.model.column_type import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    MAP,
    STRING,
    STRUCT,
    TIMESTAMP,
    ColumnType,
)
from lakemq.model.fit import Misfit
from lakemq.model.schema import SchemaVersion, make_decoder, parse_schema

FIELDS, ERROR = "fields", "error"

_ARROW: dict[str, Any] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    JSON: pa.string(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
}

Decoded = Callable[[Sequence["bytes | None"], Sequence[int]], pa.StructArray]


def in_arrow(type: ColumnType) -> pa.DataType:
    """The type as Arrow's."""
    if type.kind == DECIMAL:
        return pa.decimal128(type.precision, type.scale)
    if type.kind == STRUCT:
        return pa.struct([(each.name, in_arrow(each.type)) for each in type.fields])
    if type.of is not None:
        of = in_arrow(type.of)
        return pa.map_(pa.string(), of) if type.kind == MAP else pa.list_(of)
    return _ARROW[type.kind]


@lru_cache(maxsize=64)
def decoding(versions: tuple[SchemaVersion, ...]) -> Decoded:
    """What makes a STRUCT of each body, and of when it was stored in ms: `fields`, which is null where the body doesn't
    fit, and `error`, which says why."""
    decode = make_decoder(versions)
    current = versions[-1]
    kind = in_arrow(parse_schema(current.type, current.text).columns)

    def decoded(bodies: Sequence[bytes | None], times_ms: Sequence[int]) -> pa.StructArray:
        rows: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for body, time_ms in zip(bodies, times_ms, strict=True):
            try:
                rows.append(decode(body or b"", time_ms))
                errors.append(None)
            except Misfit as misfit:
                rows.append(None)
                errors.append(str(misfit))
        return pa.StructArray.from_arrays([_fields(rows, errors, kind), pa.array(errors, pa.string())], [FIELDS, ERROR])

    return decoded


def _fields(rows: list[dict[str, Any] | None], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    """The rows as Arrow's; one that Arrow can't hold has an error too, so that none stops the others."""
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        for at, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
                rows[at], errors[at] = None, f"it can't be columns: {error}"[:300]
        return pa.array(rows, kind)
