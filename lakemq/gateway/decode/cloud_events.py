"""CloudEvents 1.0 over HTTP: binary, structured and batched mode.

`id` becomes a key, `type` the tag, every other attribute a property of its name. The `Lakemq-…`
headers on queue, order and delay hold for every event of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from lakemq.gateway.decode.fields import draft_of
from lakemq.gateway.decode.header_fields import header_text, routing_fields
from lakemq.gateway.decode.json_form import check_count
from lakemq.gateway.decode.json_text import (
    read_base64,
    read_exact_json,
    read_json,
    read_text,
    write_json,
)
from lakemq.gateway.decode.limits import Limits
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.message import Draft

_PREFIX = "ce-"
_REQUIRED = ("id", "source", "specversion", "type")
_NEVER_EMPTY = (*_REQUIRED, "subject", "datacontenttype", "dataschema", "time")
_NAME = re.compile(r"[a-z0-9]+\Z")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)("|\\?\Z)', re.DOTALL)
"""A quoted string, or one that is never closed, taken whole so that the search stays linear."""
_ESCAPED = re.compile(r"\\(.)")
_TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\Z",
    re.IGNORECASE,
)
_JSON = re.compile(r"[^/;]+/([^/;]+\+)?json\s*(;|\Z)", re.IGNORECASE)
_INTEGERS = range(-(2**31), 2**31)


def is_binary_event(headers: Mapping[str, str]) -> bool:
    """Whether a request whose content type isn't CloudEvents' own is an event all the same."""
    return "ce-specversion" in headers


def decode_binary(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    """The one event whose attributes are `ce-…` headers and whose data is the body."""
    attributes = {
        name.removeprefix(_PREFIX): _header_value(name, value)
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    if content_type:
        attributes["datacontenttype"] = header_text("Content-Type", content_type)
    return [_draft(attributes, body, routing_fields(headers), limits)]


def decode_structured(headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    """The one event that the body holds as a JSON object."""
    return _decode_events([read_json(body)], lambda: [read_exact_json(body)], headers, limits)


def decode_batched(headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    """The events of a JSON array, at least one."""
    document = read_json(body)
    if not isinstance(document, list):
        raise InvalidRequest("the body must be a list of events")
    events = cast("list[object]", document)
    if not events:
        raise InvalidRequest("the batch has no events")
    check_count(len(events))
    return _decode_events(events, lambda: read_exact_json(body), headers, limits)


def _decode_events(
    events: list[object],
    read_again: Callable[[], Any],
    headers: Mapping[str, str],
    limits: Limits,
) -> list[Draft]:
    exact: list[Any] = read_again() if any(map(_has_json_data, events)) else events
    routing = routing_fields(headers)
    drafts: list[Draft] = []
    for event, same in zip(events, exact, strict=True):
        try:
            drafts.append(_event(event, same, routing, limits))
        except LakemqError as error:
            raise type(error)(f"events[{len(drafts)}]: {error.detail}") from None
    return drafts


def _has_json_data(event: object) -> bool:
    """Whether the event's data is more than a string: its numbers are to keep their digits."""
    if not isinstance(event, dict):
        return False
    return not isinstance(cast("dict[str, object]", event).get("data", ""), str)


def _event(event: object, exact: Any, routing: dict[str, object], limits: Limits) -> Draft:
    if not isinstance(event, dict):
        raise InvalidRequest("an event must be an object")
    members = cast("dict[str, object]", event)
    attributes = {
        name: _attribute_text(name, value)
        for name, value in members.items()
        if name not in ("data", "data_base64") and value is not None
    }
    if "data_base64" in members:
        if "data" in members:
            raise InvalidRequest("an event can't have both data and data_base64")
        body = read_base64("data_base64", members["data_base64"])
    elif "data" in members:
        # What the JSON format implies is said, since the body stands alone from here on.
        attributes.setdefault("datacontenttype", "application/json")
        body = _data(exact["data"], attributes["datacontenttype"])
    else:
        body = b""
    return _draft(attributes, body, routing, limits)


def _data(data: object, content_type: str) -> bytes:
    if _JSON.match(content_type):
        return write_json(data)
    if isinstance(data, str):
        return read_text("data", data)
    raise InvalidRequest("data must be a string, since datacontenttype is not JSON")


def _attribute_text(name: str, value: object) -> str:
    """The canonical string of an attribute: CloudEvents knows booleans, int32 and strings."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value in _INTEGERS:
        return str(value)
    raise InvalidRequest(f"attribute {name[:100]!r} must be a string, boolean or 32-bit integer")


def _header_value(name: str, value: str) -> str:
    """An attribute's header: quoted strings are unescaped, then percent-encoding is undone."""
    text = _QUOTED.sub(_unquoted, header_text(name, value))
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise InvalidRequest(f"header {name[:100]} is no valid UTF-8") from None


def _unquoted(found: re.Match[str]) -> str:
    return _ESCAPED.sub(r"\1", found[1]) if found[2] == '"' else found[0]


def _draft(attributes: dict[str, str], body: bytes, routing: dict[str, object], limits: Limits) -> Draft:
    _check_attributes(attributes)
    properties = {name: attributes[name] for name in attributes if name not in ("id", "type")}
    fields: dict[str, object] = {
        **routing,
        "tag": attributes["type"],
        "keys": [attributes["id"]],
        "properties": properties,
    }
    return draft_of(body, fields, limits)


def _check_attributes(attributes: dict[str, str]) -> None:
    for name in _REQUIRED:
        if name not in attributes:
            raise InvalidRequest(f"attribute {name!r} is missing")
    for name in _NEVER_EMPTY:
        if attributes.get(name) == "":
            raise InvalidRequest(f"attribute {name!r} is empty")
    if attributes["specversion"] != "1.0":
        raise InvalidRequest("attribute 'specversion' must be '1.0'")
    if not _TIME.match(attributes.get("time", "1970-01-01T00:00:00Z")):
        raise InvalidRequest("attribute 'time' must be a time by RFC 3339")
    for name in attributes:
        if name == "data" or not _NAME.match(name):
            raise InvalidRequest(f"attribute {name[:100]!r} must be named with lower-case letters and digits only")
