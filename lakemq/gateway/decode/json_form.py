"""`application/json` and `application/x-ndjson`: messages as the contract writes them."""

from __future__ import annotations

import re
from typing import cast

from lakemq.gateway.decode.fields import draft_of
from lakemq.gateway.decode.json_text import read_base64, read_json, read_text
from lakemq.gateway.decode.limits import DRAFTS_MAX, Limits
from lakemq.model.errors import InvalidRequest, LakemqError, MessageTooLarge
from lakemq.model.message import Draft

_FIELDS = frozenset({*Draft._fields, "body_encoding"})
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
    try:
        for entry in entries:
            drafts.append(_draft(entry, limits))  # noqa: PERF401 - its length tells where it broke
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
    return _draft(document, limits)


def decode_ndjson(body: bytes, limits: Limits) -> list[Draft]:
    """The messages of one JSON object a line, at least one; blank lines don't count."""
    drafts: list[Draft] = []
    for line in _LINE.finditer(body):
        try:
            check_count(len(drafts) + 1)
            drafts.append(_draft(read_json(line[0]), limits))
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


def _draft(entry: object, limits: Limits) -> Draft:
    if not isinstance(entry, dict):
        raise InvalidRequest("a message must be an object")
    fields = cast("dict[str, object]", entry)
    _refuse_unknown(fields, _FIELDS)
    return draft_of(_body(fields), fields, limits)


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
        raise InvalidRequest(f"unknown field {names}")
