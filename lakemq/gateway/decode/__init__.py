"""Produce requests, decoded: every form of the contract becomes drafts or Arrow rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakemq.contract.forms import ARROW, EVENT, EVENT_BATCH, FORMS, JSON, NDJSON, OCTETS, is_form
from lakemq.contract.headers import SEND_IDS
from lakemq.contract.media_type import check_utf8, media_type
from lakemq.gateway.decode import cloud_events
from lakemq.gateway.decode.arrow_form import ArrowRows, decode_arrow
from lakemq.gateway.decode.header_fields import ROUTING, check_headers
from lakemq.gateway.decode.inflate import inflate
from lakemq.gateway.decode.json_form import decode_json, decode_json_message, decode_ndjson
from lakemq.gateway.decode.limits import Limits, TakesLong
from lakemq.gateway.decode.named_rows import name_rows
from lakemq.gateway.decode.raw_form import decode_raw
from lakemq.gateway.decode.trace_headers import traced
from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType
from lakemq.model.message import Draft

Decoder = Callable[[str, Mapping[str, str], bytes, Limits], "list[Draft] | ArrowRows"]
"""From a content type, headers and a body to messages."""

__all__ = ["ArrowRows", "Limits", "TakesLong", "decode", "decode_one", "inflate"]


def decode(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft] | ArrowRows:
    """The messages of a produce request, at least one, each field checked.

    `headers` has lower-case names. `body` has no content encoding any more (see `inflate`). An
    empty `content_type` means `application/octet-stream`. Pure: no I/O, no clock. Raises
    `InvalidRequest`, `InvalidArrow`, `MessageTooLarge` or `UnsupportedMediaType`, whatever the
    input; the detail names the message and the field. Raises `TakesLong` where `limits.at_once`.
    """
    if len(body) > limits.request_bytes_max:
        raise MessageTooLarge(f"the request has {len(body)} bytes, more than {limits.request_bytes_max}")
    media = media_type(content_type)
    is_event = cloud_events.is_binary_event(headers)
    if is_form(media) and not (is_event and media in _AS_THEY_ARE):
        messages = _decoder(media)(content_type, headers, body, limits)
        return traced(messages, headers) if media in _OF_THE_REQUEST and isinstance(messages, list) else messages
    if is_event:
        check_headers(headers, ROUTING, "an event")
        return cloud_events.decode_binary(content_type, headers, body, limits)
    return traced(decode_raw(content_type or OCTETS, headers, body, limits), headers)


def decode_one(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> Draft:
    """The message of a request that holds just one, in any form but Arrow; as JSON it may stand alone.
    Raises what `decode` does."""
    media = media_type(content_type)
    if media == ARROW and not cloud_events.is_binary_event(headers):
        raise UnsupportedMediaType("a single message may be JSON, an event or raw bytes, not Arrow")
    if media == JSON and not cloud_events.is_binary_event(headers):
        check_utf8(content_type)
        check_headers(headers, frozenset(), media)
        return traced([decode_json_message(body, limits)], headers)[0]
    drafts = decode(content_type, headers, body, limits)
    if isinstance(drafts, ArrowRows) or len(drafts) > 1:
        raise InvalidRequest(f"there are {len(drafts)} messages; it must be one")
    return drafts[0]


def _decode_arrow(_: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> ArrowRows:
    check_headers(headers, _WITH_ARROW, ARROW)
    rows = decode_arrow(body, limits)
    header = headers.get(_SEND_IDS)
    return rows if header is None else name_rows(rows, header, limits.request_bytes_max)


def _decode_json(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    check_headers(headers, frozenset(), JSON)
    check_utf8(content_type)
    return decode_json(body, limits)


def _decode_ndjson(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    check_headers(headers, frozenset(), NDJSON)
    check_utf8(content_type)
    return decode_ndjson(body, limits)


def _decode_event(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    check_headers(headers, ROUTING, "an event")
    check_utf8(content_type)
    return cloud_events.decode_structured(headers, body, limits)


def _decode_events(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    check_headers(headers, ROUTING, "an event")
    check_utf8(content_type)
    return cloud_events.decode_batched(headers, body, limits)


_SEND_IDS = SEND_IDS.lower()
_WITH_ARROW = frozenset({_SEND_IDS})
_DECODERS: dict[str, Decoder] = {
    JSON: _decode_json,
    NDJSON: _decode_ndjson,
    ARROW: _decode_arrow,
    EVENT: _decode_event,
    EVENT_BATCH: _decode_events,
}
_AS_THEY_ARE = (JSON, NDJSON, ARROW)
"""Forms that are an event's data where the headers are an event's attributes."""
_OF_THE_REQUEST = (JSON, NDJSON)
"""Forms whose messages have the request's trace. An event has its own, or none: its attributes say it."""
if _DECODERS.keys() != set(FORMS):
    raise NotImplementedError(f"forms of the contract without a decoder: {set(FORMS) ^ _DECODERS.keys()}")


def _decoder(media: str) -> Decoder:
    decoder = _DECODERS.get(media)
    if decoder is None:
        raise UnsupportedMediaType(f"events must be JSON, not {media[:100]!r}")
    return decoder
