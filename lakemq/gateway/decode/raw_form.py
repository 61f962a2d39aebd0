"""Any other content type: the body is one message's payload, the headers are its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lakemq.gateway.decode.fields import draft_of
from lakemq.gateway.decode.header_fields import ALL, check_headers, header_text, message_fields
from lakemq.gateway.decode.limits import Limits
from lakemq.model.message import Draft

CURLS_OWN = "application/x-www-form-urlencoded"
"""What `curl -d` calls anything that it isn't told the type of."""


def decode_raw(content_type: str, headers: Mapping[str, str], body: bytes, limits: Limits) -> list[Draft]:
    """One message; its property `content_type` is the header as it was sent, unless it says nothing."""
    check_headers(headers, ALL, "a raw message")
    fields = message_fields(headers)
    properties = cast("dict[str, str]", fields["properties"])
    if content_type.strip().lower() != CURLS_OWN:
        properties["content_type"] = header_text("Content-Type", content_type)
    return [draft_of(body, fields, limits)]
