"""The columns of `format("lakemq")`: as Spark's types, and the log's Arrow as Spark's Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakemq.jobs.source.plan import LogPartition
from lakemq.model.columns import TIMES
from lakemq.model.message_columns import COMPUTED, STORED, Kind

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

_TYPES: dict[Kind, DataType] = {
    Kind.BYTES: BinaryType(),
    Kind.TEXT: StringType(),
    Kind.TEXTS: ArrayType(StringType()),
    Kind.MAP: MapType(StringType(), StringType()),
    Kind.INT: IntegerType(),
    Kind.LONG: LongType(),
    Kind.TIME: TimestampType(),
}
_KNOWN: dict[str, DataType] = {
    "broker": StringType(),
    "store_date": DateType(),
    **{column.lake_name: _TYPES[column.kind] for column in (*COMPUTED, *STORED)},
}
_FIRST = (
    *("broker", "position", "topic", "queue_id", "queue_offset", "message_id"),
    *("tag", "keys", "properties", "ordering_key", "body", "store_time", "store_date", "born_time"),
)

COLUMNS: dict[str, DataType] = {name: _KNOWN[name] for name in dict.fromkeys((*_FIRST, *_KNOWN))}
"""A message's columns, which are those of the lake's table `messages` too. Append only: a table
that an earlier version made gets the new ones at its end."""

EXTRA_COLUMNS: dict[str, DataType] = {
    "clock": TimestampType(),
    "event_time": TimestampType(),
    "size": IntegerType(),
    "broker_clock": TimestampType(),
    "broker_clock_before": TimestampType(),
}
"""`clock`: the batch's planned time. `event_time`: the store time, but after the clock of the batch
before and not after this one's, so never late for a watermark. `size`: the body's bytes. `broker_clock`: in a stream
with ticks, the broker's own clock as it said last, and `broker_clock_before` as of the batch before; 1970 where it had
said none. Only `clock` comes without being asked for by name."""

_NEEDS = {
    **TIMES,
    "broker": None,
    "clock": None,
    "broker_clock": None,
    "broker_clock_before": None,
    "event_time": "store_time_ms",
    "store_date": "store_time_ms",
}
_LOG_TIME = pa.timestamp("ms", tz="UTC")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_DAY_MS = 86_400_000


def schema_of(names: list[str]) -> StructType:
    """The Spark schema of those columns, in that order."""
    types = COLUMNS | EXTRA_COLUMNS
    return StructType([StructField(name, types[name]) for name in names])


def log_columns(names: list[str]) -> list[str]:
    """What to ask the log for, so that `to_batch` can make the columns; never empty."""
    needed = [_NEEDS.get(name, name) for name in names]
    return list(dict.fromkeys(name for name in needed if name is not None)) or ["position"]


def arrow_schema_of(names: list[str]) -> pa.Schema:
    """Exactly the Arrow schema that Spark expects for those columns."""
    return to_arrow_schema(schema_of(names), timezone="UTC")


def to_batch(table: pa.Table, schema: pa.Schema, partition: LogPartition) -> pa.RecordBatch:
    """The log's rows as one batch of `schema` (`arrow_schema_of`), column by column."""
    constant = _constants(partition)
    previous_ms, clock_ms = partition.previous_ms, partition.clock_ms
    columns: list[pa.Array] = []
    for field in schema:
        if field.name in constant:
            columns.append(pa.repeat(constant[field.name], table.num_rows))
        elif field.name == "event_time":
            columns.append(_event_time(table, previous_ms, clock_ms).cast(field.type))
        else:
            columns.append(_column(table, field.name).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def tick_batch(schema: pa.Schema, partition: LogPartition) -> pa.RecordBatch:
    """One row that only says what time it is."""
    known = _constants(partition)
    known["event_time"] = known["clock"]
    columns = [pa.repeat(known[name], 1) if name in known else pa.nulls(1, kind) for name, kind in _typed(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _constants(partition: LogPartition) -> dict[str, Any]:
    """What is the same in all rows."""
    times = {
        "clock": partition.clock_ms,
        "broker_clock": partition.broker_ms,
        "broker_clock_before": partition.broker_before_ms,
    }
    broker: dict[str, Any] = {"broker": pa.scalar(partition.broker, pa.string())}
    return broker | {name: pa.scalar(time_ms, _LOG_TIME).cast(_TIMESTAMP) for name, time_ms in times.items()}


def _typed(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _event_time(table: pa.Table, previous_ms: int, clock_ms: int) -> pa.Array:
    stored = _whole(table, "store_time_ms")
    return pc.min_element_wise(pc.max_element_wise(stored, previous_ms + 1), clock_ms).cast(_LOG_TIME)


def _column(table: pa.Table, name: str) -> pa.Array:
    if name in TIMES:
        return _whole(table, TIMES[name]).cast(_LOG_TIME)
    if name == "store_date":
        return pc.divide(_whole(table, "store_time_ms"), _DAY_MS).cast(pa.int32()).cast(pa.date32())
    return _whole(table, name)


def _whole(table: pa.Table, name: str) -> pa.Array:
    """The column in one piece: Spark pays for each batch that it gets."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
