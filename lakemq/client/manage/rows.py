"""A frame's rows as messages."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from lakemq.client.outgoing import Message
from lakemq.client.wrong_type import WrongType
from lakemq.model.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_A_TIME = 1_000


class Columns(NamedTuple):
    """Which columns say what. Those that are named nowhere are the body, as a JSON object; or `body` is it."""

    keys: tuple[str, ...]
    tag: str | None
    ordering_key: str | None
    properties: tuple[str, ...]
    body: str | None

    def named(self) -> list[str]:
        """All that are named."""
        single = [each for each in (self.tag, self.ordering_key, self.body) if each is not None]
        return [*self.keys, *single, *self.properties]


def columns_of(
    key: str | Sequence[str] | None,
    tag: str | None,
    ordering_key: str | None,
    properties: Sequence[str],
    body: str | None,
) -> Columns:
    """As they were given."""
    if isinstance(properties, str):
        raise WrongType("properties are a list of columns", properties)
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    return Columns(keys, tag, ordering_key, tuple(properties), body)


def table_of(frame: Any) -> pa.Table:
    """An Arrow table of a pandas or Polars DataFrame, of an Arrow table or batch, or of whatever else has the Arrow
    stream interface. pandas' index is left out. Raises `WrongType`."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        table = pa.Table.from_pandas(frame, preserve_index=False)
    elif isinstance(frame, pa.Table | pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
    elif isinstance(frame, Mapping):
        table = pa.table(dict(frame))
    else:
        raise WrongType("a frame is a pandas or Polars DataFrame, an Arrow table, or a dict of columns", frame)
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":  # Python's times have microseconds
            times = table.column(number).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(number, field.name, times)
    return table


def check_columns(table: pa.Table, columns: Columns) -> None:
    """Raises `InvalidRequest` for a name that no column has, or that is of two."""
    names = table.schema.names
    for name in columns.named():
        if names.count(name) != 1:
            raise InvalidRequest(
                f"the frame has {names.count(name)} columns {name!r}; it has {', '.join(names)}"[:1000]
            )


def messages_of(table: pa.Table, columns: Columns) -> Iterator[Message | InvalidRequest]:
    """A message for each row, or why there is none: then that is the last one."""
    named = set(columns.named())
    rest = [name for name in table.schema.names if name not in named]
    for begin in range(0, table.num_rows, ROWS_AT_A_TIME):
        for row in table.slice(begin, ROWS_AT_A_TIME).to_pylist():
            try:
                yield _message(row, columns, rest)
            except InvalidRequest as error:
                yield error
                return


def _message(row: dict[str, Any], columns: Columns, rest: Sequence[str]) -> Message:
    keys = [text for name in columns.keys if (text := _text(name, row[name])) is not None]
    properties = {name: text for name in columns.properties if (text := _text(name, row[name])) is not None}
    return Message(
        body=_body(row, columns.body, rest),
        keys=keys or None,
        tag=None if columns.tag is None else _text(columns.tag, row[columns.tag]),
        ordering_key=None if columns.ordering_key is None else _text(columns.ordering_key, row[columns.ordering_key]),
        properties=properties or None,
    )


def _body(row: dict[str, Any], column: str | None, rest: Sequence[str]) -> bytes | str:
    if column is None:
        try:
            return orjson.dumps({name: row[name] for name in rest}, default=_plain)
        except TypeError:
            raise InvalidRequest(f"column {_unfit(row, rest)!r} has no form in JSON: leave it out") from None
    body = row[column]
    if isinstance(body, bytes | str):
        return body
    raise WrongType(f"column {column!r}, the body, is bytes or text", body)


def _unfit(row: dict[str, Any], rest: Sequence[str]) -> str:
    """The first column that JSON can't say."""
    for name in rest:
        try:
            orjson.dumps(row[name], default=_plain)
        except TypeError:
            return name
    return "?"


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def _text(name: str, value: object) -> str | None:
    """As a key, a tag or a property has it; None stays away."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise WrongType(f"column {name!r} is text, numbers or times", value)
