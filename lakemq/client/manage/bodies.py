"""A frame's columns: times as timestamps, and bodies as they are asked for."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import orjson

from lakemq.model.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

Body = Literal["bytes", "text", "json"]
"""Bodies as they are; as UTF-8 text; or JSON objects, whose fields are columns."""
FIELDS_MAX = 1_000


def check_body(body: Body) -> None:
    """Raises `InvalidRequest`."""
    if body not in get_args(Body):
        raise InvalidRequest(f"body is one of {', '.join(get_args(Body))}, not {body!r:.100}")


def with_bodies(table: pa.Table, body: Body) -> pa.Table:
    """The messages with times as timestamps, named as in the lake's table, and with their bodies. Raises
    `InvalidRequest`, with the message's id, for a body that is none of that kind."""
    table = _with_times(table)
    if body == "bytes":
        return table
    bodies, ids = table.column("body").to_pylist(), table.column("message_id").to_pylist()
    at = table.schema.get_field_index("body")
    if body == "text":
        import pyarrow as pa

        texts = [_text(each, message_id) for each, message_id in zip(bodies, ids, strict=True)]
        return table.set_column(at, "body", pa.array(texts, pa.string()))
    return _with_fields(table.remove_column(at), bodies, ids)


def _with_times(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    from lakemq.model.columns import TIMES

    names = {name: timestamp for timestamp, name in TIMES.items()}
    columns = {
        names.get(name, name): table.column(name).cast(pa.timestamp("ms", "UTC"))
        if name in names
        else table.column(name)
        for name in table.schema.names
    }
    return pa.table(columns)


def _text(body: bytes, message_id: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"the body of message {message_id} is no UTF-8 text: read it with body='bytes'") from None


def _object(body: bytes, message_id: str) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest(f"the body of message {message_id} is no JSON object: read it with body='text'")
    return cast("dict[str, Any]", found)


def _with_fields(table: pa.Table, bodies: Sequence[bytes], ids: Sequence[str]) -> pa.Table:
    """With a column for each field that a body has; `body_{name}` where a message has such a column itself."""
    objects = [_object(each, message_id) for each, message_id in zip(bodies, ids, strict=True)]
    fields: dict[str, None] = {}
    for each in objects:
        fields |= dict.fromkeys(each)
        if len(fields) > FIELDS_MAX:
            raise InvalidRequest(f"the bodies have more than {FIELDS_MAX} different fields: read them with body='text'")
    for field in fields:
        name = field
        while name in table.schema.names:
            name = f"body_{name}"
        table = table.append_column(name, _column([each.get(field) for each in objects]))
    return table


def _column(values: list[Any]) -> pa.Array:
    """Of one type; where they have several, of JSON texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
        return pa.array(texts, pa.string())
