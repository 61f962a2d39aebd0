"""The `Lakemq-…` headers of a request, as fields of a message."""

from __future__ import annotations

from collections.abc import Mapping

from lakemq.gateway.decode.fields import integer_text
from lakemq.model.errors import InvalidRequest

_PROPERTY = "lakemq-property-"
_INTEGERS = {
    "lakemq-queue-id": "queue_id",
    "lakemq-delay-level": "delay_level",
    "lakemq-delay-ms": "delay_ms",
    "lakemq-deliver-at-ms": "deliver_at_ms",
}


def header_text(name: str, value: str) -> str:
    """A header's text. Servers hand headers over as Latin-1; clients send UTF-8."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeEncodeError:
        return value  # it was more than Latin-1, so it was decoded already
    except UnicodeDecodeError:
        raise InvalidRequest(f"header {name} is no valid UTF-8") from None


def routing_fields(headers: Mapping[str, str]) -> dict[str, object]:
    """What the headers say about where and when a message goes: queue, order, delay."""
    fields: dict[str, object] = {}
    if "lakemq-ordering-key" in headers:
        fields["ordering_key"] = header_text("Lakemq-Ordering-Key", headers["lakemq-ordering-key"])
    for header, field in _INTEGERS.items():
        if header in headers:
            fields[field] = integer_text(field, headers[header].strip())
    return fields


def message_fields(headers: Mapping[str, str]) -> dict[str, object]:
    """All that the headers say about a message. Empty entries of `Lakemq-Keys` don't count."""
    fields = routing_fields(headers)
    if "lakemq-tag" in headers:
        fields["tag"] = header_text("Lakemq-Tag", headers["lakemq-tag"])
    if "lakemq-keys" in headers:
        keys = header_text("Lakemq-Keys", headers["lakemq-keys"]).split(",")
        fields["keys"] = [key.strip() for key in keys if key.strip()]
    fields["properties"] = {
        name.removeprefix(_PROPERTY): header_text(name, value)
        for name, value in headers.items()
        if name.startswith(_PROPERTY)
    }
    return fields
