"""The columns of a message, as Arrow types.

`STORED` are the columns that a frame holds, each with a bit: a frame leaves out the columns that
are null in all its rows. `COMPUTED` follow from a frame's header. The order of `MESSAGE` is the
order in which the gateway answers them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)
from __future__ import annotations

import pyarrow as pa

from lakemq.model import message_columns
from lakemq.model.message_columns import Column, Kind

_TYPES: dict[Kind, pa.DataType] = {
    Kind.BYTES: pa.binary(),
    Kind.TEXT: pa.string(),
    Kind.TEXTS: pa.list_(pa.string()),
    Kind.MAP: pa.map_(pa.string(), pa.string()),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.TIME: pa.int64(),
}


def _nullable(columns: tuple[Column, ...]) -> tuple[pa.Field, ...]:
    return tuple(pa.field(each.name, _TYPES[each.kind], nullable=each.kind is not Kind.BYTES) for each in columns)


STORED: tuple[pa.Field, ...] = _nullable(message_columns.STORED)
"""A column's bit in a frame's mask is its index here."""

COMPUTED: tuple[pa.Field, ...] = tuple(
    pa.field(each.name, _TYPES[each.kind], nullable=False) for each in message_columns.COMPUTED
)

MESSAGE: pa.Schema = pa.schema(
    [*COMPUTED, *(field for field, each in zip(STORED, message_columns.STORED, strict=True) if not each.routes)]
)
"""A message on the way out: `born_time_ms` and `reconsume_times` are never null there."""

SIZE = pa.field("size", pa.int32(), nullable=False)
"""The body's length in bytes: for readers of the log that leave the body out."""

READABLE: dict[str, pa.Field] = {field.name: field for field in (*MESSAGE, *STORED, SIZE)}
"""What a reader of the log may ask for."""

REQUEST: pa.Schema = pa.schema(_nullable(message_columns.GIVEN))
"""A message on the way in, as an Arrow stream; only `body` is needed."""

SINK: pa.Schema = pa.schema(_nullable(message_columns.GIVEN_TO_SINK))
"""A message on the way in through a sink: it may say of which first message it is a copy."""

TIMES: dict[str, str] = {
    each.lake_name: each.name for each in (*message_columns.COMPUTED, *message_columns.STORED) if each.kind is Kind.TIME
}
"""The columns of times, by what each is called where it is a timestamp: `store_time` is `store_time_ms` here."""

STORED_NAMES: tuple[str, ...] = tuple(field.name for field in STORED)
STORED_BIT: dict[str, int] = {name: bit for bit, name in enumerate(STORED_NAMES)}


def stored_schema(mask: int) -> pa.Schema:
    """The schema of a frame's payload whose header holds `mask`, one bit a column of `STORED`."""
    return pa.schema([field for bit, field in enumerate(STORED) if mask >> bit & 1])
