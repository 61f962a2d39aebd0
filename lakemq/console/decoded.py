"""A message's body by its topic's schema, as the topic's table has it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from lakemq.console.asked import Broker
from lakemq.console.shown import BODY_SHOWN_MAX, body_bytes
from lakemq.contract import schema_routes
from lakemq.model.column_type import ARRAY, MAP, STRUCT, ColumnType
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.fit import Misfit
from lakemq.model.schema import SchemaVersion, make_decoder, parse_schema
from lakemq.model.schema_kinds import JSON_SCHEMA

CHARACTERS_MAX = 4 * BODY_SHOWN_MAX
"""Of the columns, as a page shows them: where elements lack most fields they are longer than the body."""
_TURN = asyncio.Semaphore(1)


class Decoded(NamedTuple):
    """`text`: the columns as JSON; None: the body doesn't fit, and `error` says why. `cut`: there is more of it."""

    version: int
    type: str
    text: str | None
    error: str = ""
    cut: bool = False

    @property
    def is_first(self) -> bool:
        """Whether it says more than the body itself does, which is no text then."""
        return self.text is not None and self.type != JSON_SCHEMA


async def decoded_of(broker: Broker, topic: str, message: Mapping[str, Any]) -> Decoded | None:
    """None: the topic has no schema that this user may see, or the body is longer than a page shows."""
    body = body_bytes(message)
    if len(body) > BODY_SHOWN_MAX:
        return None
    try:
        answer = await broker.get(schema_routes.SCHEMAS.at(), {"topic": topic})
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        return None
    known = next(iter(answer["schemas"]), None)
    if known is None:
        return None
    async with _TURN:  # one at a time: a small body can take much memory
        return await asyncio.to_thread(_decoded, known["versions"], body, message["store_time_ms"])


def _decoded(listed: list[dict[str, Any]], body: bytes, store_time_ms: int) -> Decoded | None:
    versions = [SchemaVersion(each["version"], each["type"], each["schema"], each["created_ms"]) for each in listed]
    current = versions[-1]
    try:
        columns = parse_schema(current.type, current.text).columns
        row = make_decoder(versions)(body, store_time_ms)
    except Misfit as misfit:
        return Decoded(current.version, current.type, None, str(misfit))
    except InvalidRequest:  # of a type that a newer broker has
        return None
    text = ""
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(_plain(columns, row)):
        text += part
        if len(text) > CHARACTERS_MAX:
            return Decoded(current.version, current.type, text[:CHARACTERS_MAX], cut=True)
    return Decoded(current.version, current.type, text)


def _plain(type: ColumnType, value: Any) -> Any:
    """As JSON has it: bytes in base64, numbers of a DECIMAL as text."""
    if value is None:
        return None
    if type.kind == STRUCT:
        return {each.name: _plain(each.type, value.get(each.name)) for each in type.fields}
    if type.kind == ARRAY and type.of is not None:
        return [_plain(type.of, each) for each in value]
    if type.kind == MAP and type.of is not None:
        return {key: _plain(type.of, each) for key, each in value}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
