"""Produce requests, decoded: every form of the contract becomes drafts or Arrow rows."""

from __future__ import annotations

from collections.abc import Mapping

from lakemq.gateway.decode import cloud_events
from lakemq.gateway.decode.arrow_form import ArrowRows, decode_arrow
from lakemq.gateway.decode.header_fields import ALL, ROUTING, check_headers
from lakemq.gateway.decode.inflate import inflate
from lakemq.gateway.decode.json_form import decode_json, decode_json_message, decode_ndjson
from lakemq.gateway.decode.limits import Limits
from lakemq.gateway.decode.media_type import check_utf8, media_type
from lakemq.gateway.decode.raw_form import decode_raw
from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType
from lakemq.model.message import Draft

__all__ = ["ArrowRows", "Limits", "decode", "decode_one", "inflate"]

_OCTETS = "application/octet-stream"
_FORMS = ("application/vnd.apache.arrow.stream", "application/json", "application/x-ndjson")


def decode(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft] | ArrowRows:
    """The messages of a produce request, at least one, each field checked.

    `headers` has lower-case names. `body` has no content encoding any more (see `inflate`). An
    empty `content_type` means `application/octet-stream`. Pure: no I/O, no clock. Raises
    `InvalidRequest`, `InvalidArrow`, `MessageTooLarge` or `UnsupportedMediaType`, whatever the
    input; the detail names the message and the field.
    """
    if len(body) > limits.request_bytes_max:
        raise MessageTooLarge(f"the request has {len(body)} bytes, more than {limits.request_bytes_max}")
    media = media_type(content_type)
    if media.startswith("application/cloudevents"):
        check_headers(headers, ROUTING, "an event")
        return _decode_event_format(media, content_type, headers, body, limits)
    if cloud_events.is_binary_event(headers):
        check_headers(headers, ROUTING, "an event")
        return cloud_events.decode_binary(content_type, headers, body, limits)
    if media in _FORMS:
        check_headers(headers, frozenset(), media)
    if media == "application/vnd.apache.arrow.stream":
        return decode_arrow(body, limits)
    if media == "application/json":
        check_utf8(content_type)
        return decode_json(body, limits)
    if media == "application/x-ndjson":
        check_utf8(content_type)
        return decode_ndjson(body, limits)
    check_headers(headers, ALL, "a raw message")
    return decode_raw(content_type or _OCTETS, headers, body, limits)


def decode_one(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> Draft:
    """The message of a request that holds just one, in any form but Arrow; as JSON it may stand alone.
    Raises what `decode` does."""
    media = media_type(content_type)
    if media == "application/json" and not cloud_events.is_binary_event(headers):
        check_utf8(content_type)
        check_headers(headers, frozenset(), media)
        return decode_json_message(body, limits)
    drafts = decode(content_type, headers, body, limits)
    if isinstance(drafts, ArrowRows):
        raise UnsupportedMediaType("one message is taken as JSON, as an event or as it is, not as Arrow")
    if len(drafts) > 1:
        raise InvalidRequest(f"there are {len(drafts)} messages; it must be one")
    return drafts[0]


def _decode_event_format(
    media: str, content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits
) -> list[Draft]:
    check_utf8(content_type)
    if media == "application/cloudevents+json":
        return cloud_events.decode_structured(headers, body, limits)
    if media == "application/cloudevents-batch+json":
        return cloud_events.decode_batched(headers, body, limits)
    raise UnsupportedMediaType(f"events are taken as JSON, not as {media[:100]!r}")
