"""`application/json` and `application/x-ndjson`: messages as the contract writes them."""

from __future__ import annotations

import re
from typing import Any, cast

from lakemq.contract.forms import CONTENT_TYPE, JSON
from lakemq.gateway.decode.fields import draft_of
from lakemq.gateway.decode.json_text import read_base64, read_exact_json, read_json, read_text, write_json
from lakemq.gateway.decode.limits import DRAFTS_MAX, Limits
from lakemq.model.errors import InvalidRequest, LakemqError, MessageTooLarge
from lakemq.model.message import Draft

_FIELDS = frozenset({*Draft._fields, "body_encoding"})
_FIELDS_WITH_JSON = _FIELDS | {"json"}
_LINE = re.compile(rb"[^\s][^\n]*")
"""From the first byte of a line that isn't blank: blank lines are passed over at C's speed."""


def decode_json(body: bytes, limits: Limits) -> list[Draft]:
    """The messages of `{"messages": [message, …]}`, at least one."""
    document = read_json(body)
    if not isinstance(document, dict):
        raise InvalidRequest('the body must be an object {"messages": [message, …]}')
    fields = cast("dict[str, object]", document)
    _refuse_unknown(fields, frozenset({"messages"}))
    messages = fields.get("messages")
    if not isinstance(messages, list):
        raise InvalidRequest("messages must be a list of messages")
    entries = cast("list[object]", messages)
    if not entries:
        raise InvalidRequest("messages is empty")
    check_count(len(entries))
    drafts: list[Draft] = []
    again = _Again(body)
    try:
        for entry in entries:
            drafts.append(_draft(entry, limits, again, len(drafts)))
    except LakemqError as error:
        raise type(error)(f"messages[{len(drafts)}]: {error.detail}") from None
    return drafts


def decode_json_message(body: bytes, limits: Limits) -> Draft:
    """The one message that stands alone, or in `{"messages": [message]}`."""
    document = read_json(body)
    if isinstance(document, dict) and "messages" in document:
        drafts = decode_json(body, limits)
        if len(drafts) > 1:
            raise InvalidRequest(f"there are {len(drafts)} messages; it must be one")
        return drafts[0]
    return _draft(document, limits, body)


def decode_ndjson(body: bytes, limits: Limits) -> list[Draft]:
    """The messages of one JSON object a line, at least one; blank lines don't count."""
    drafts: list[Draft] = []
    for line in _LINE.finditer(body):
        try:
            check_count(len(drafts) + 1)
            text = line[0]
            drafts.append(_draft(read_json(text), limits, text))
        except LakemqError as error:
            number = body.count(b"\n", 0, line.start()) + 1
            raise type(error)(f"line {number}: {error.detail}") from None
    if not drafts:
        raise InvalidRequest("the body has no messages")
    return drafts


def check_count(messages: int) -> None:
    """Refuse more messages than may be decoded at one go."""
    if messages > DRAFTS_MAX:
        raise MessageTooLarge(f"more than {DRAFTS_MAX} messages in one request")


class _Again:
    """The messages of a document read a second time, once one is asked for: with every digit of their numbers."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        self._messages: list[Any] | None = None

    def message(self, number: int) -> Any:
        if self._messages is None:
            self._messages = cast("list[Any]", read_exact_json(self._document)["messages"])
        return self._messages[number]


def _draft(entry: object, limits: Limits, source: bytes | _Again, number: int = 0) -> Draft:
    if not isinstance(entry, dict):
        raise InvalidRequest("a message must be an object")
    fields = cast("dict[str, object]", entry)
    if not _FIELDS.issuperset(fields):
        if "json" in fields:
            return _json_draft(fields, limits, source, number)
        _refuse_unknown(fields, _FIELDS)
    return draft_of(_body(fields), fields, limits)


def _json_draft(fields: dict[str, object], limits: Limits, source: bytes | _Again, number: int) -> Draft:
    """A message whose body is the JSON of a value, and says so in its property `content_type`."""
    _refuse_unknown(fields, _FIELDS_WITH_JSON)
    if "body" in fields or "body_encoding" in fields:
        raise InvalidRequest("a message has a body, or json, not both")
    properties = fields.get("properties")
    if properties is None or isinstance(properties, dict):
        given = cast("dict[str, object]", properties or {})
        fields = {**fields, "properties": {CONTENT_TYPE: JSON, **given}}
    value = fields["json"]
    if not isinstance(value, str | bool) and value is not None:
        value = (read_exact_json(source) if isinstance(source, bytes) else source.message(number))["json"]
    return draft_of(write_json(value), fields, limits)


def _body(fields: dict[str, object]) -> bytes:
    if "body" not in fields:
        raise InvalidRequest("body is missing")
    encoding = fields.get("body_encoding")
    if encoding is None or encoding == "utf-8":
        return read_text("body", fields["body"])
    if encoding == "base64":
        return read_base64("body", fields["body"])
    raise InvalidRequest("body_encoding must be 'utf-8' or 'base64'")


def _refuse_unknown(fields: dict[str, object], known: frozenset[str]) -> None:
    if not known.issuperset(fields):
        names = ", ".join(repr(name[:100]) for name in sorted(set(fields) - known)[:10])
        raise InvalidRequest(f"unknown field {names}; the fields are {', '.join(sorted(known))}")
