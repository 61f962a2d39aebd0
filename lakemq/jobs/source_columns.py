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

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

COLUMNS: dict[str, DataType] = {
    "broker": StringType(),
    "position": LongType(),
    "topic": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "message_id": StringType(),
    "tag": StringType(),
    "keys": ArrayType(StringType()),
    "properties": MapType(StringType(), StringType()),
    "ordering_key": StringType(),
    "body": BinaryType(),
    "store_time": TimestampType(),
    "store_date": DateType(),
    "born_time": TimestampType(),
    "deliver_at": TimestampType(),
    "reconsume_times": IntegerType(),
    "real_topic": StringType(),
    "real_queue_id": IntegerType(),
    "origin_message_id": StringType(),
    "transaction_id": StringType(),
}
"""A message's columns, which are those of the lake's table `messages` too."""

EXTRA_COLUMNS: dict[str, DataType] = {"clock": TimestampType(), "size": IntegerType()}
"""`clock`: the batch's planned time. `size`: the body's bytes; only when asked for by name."""

_TIMES = {
    "store_time": "store_time_ms",
    "born_time": "born_time_ms",
    "deliver_at": "deliver_at_ms",
}
_NEEDS = {
    **_TIMES,
    "broker": None,
    "clock": None,
    "message_id": "position",
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


def to_batch(table: pa.Table, schema: pa.Schema, broker: str, clock_ms: int) -> pa.RecordBatch:
    """The log's rows as one batch of `schema` (`arrow_schema_of`), column by column."""
    constant = {
        "broker": pa.scalar(broker, pa.string()),
        "clock": pa.scalar(clock_ms, _LOG_TIME).cast(_TIMESTAMP),
    }
    columns: list[pa.Array] = []
    for field in schema:
        if field.name in constant:
            columns.append(pa.repeat(constant[field.name], table.num_rows))
        else:
            columns.append(_column(table, field.name, broker).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(table: pa.Table, name: str, broker: str) -> pa.Array:
    if name in _TIMES:
        return _whole(table, _TIMES[name]).cast(_LOG_TIME)
    if name == "store_date":
        return pc.divide(_whole(table, "store_time_ms"), _DAY_MS).cast(pa.int32()).cast(pa.date32())
    if name == "message_id":
        positions = _whole(table, "position").cast(pa.string())
        return pc.binary_join_element_wise(pa.scalar(broker), positions, ".")
    return _whole(table, name)


def _whole(table: pa.Table, name: str) -> pa.Array:
    """The column in one piece: Spark pays for each batch that it gets."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
