"""The `Lakemq-…` headers of a request, as fields of a message."""

from __future__ import annotations

from collections.abc import Mapping

from lakemq.contract.headers import SEND_IDS
from lakemq.gateway.decode.fields import integer_text
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_columns import GIVEN, Kind

_OURS = "lakemq-"
_PROPERTY = "lakemq-property-"
_KEYS = "lakemq-keys"
_TEXTS = {_OURS + column.name.replace("_", "-"): column.name for column in GIVEN if column.kind is Kind.TEXT}
_INTEGERS = {
    "lakemq-queue-id": "queue_id",
    "lakemq-delay-level": "delay_level",
    "lakemq-delay-ms": "delay_ms",
    "lakemq-deliver-at-ms": "deliver_at_ms",
    "lakemq-ttl-ms": "ttl_ms",
    "lakemq-priority": "priority",
}

ROUTING = frozenset({*_INTEGERS, "lakemq-ordering-key"})
"""What is said of where and when messages go."""
ALL = frozenset({*ROUTING, *_TEXTS, _KEYS})
"""What is said of a message, beside `Lakemq-Property-…`."""


def check_headers(headers: Mapping[str, str], known: frozenset[str], form: str) -> None:
    """Raise `InvalidRequest` for a `Lakemq-…` header that a request of this form doesn't take: what it says
    of a message would be lost."""
    for name in headers:
        if not name.startswith(_OURS) or name in known or (known is ALL and name.startswith(_PROPERTY)):
            continue
        if name in ALL or name.startswith(_PROPERTY):
            raise InvalidRequest(f"header {name[:100]} is not for {form}, which says it in a field of its own")
        if name == SEND_IDS.lower():
            raise InvalidRequest(f"header {name} is for Arrow alone; say it in a property of each message")
        names = ", ".join(sorted([*ALL, _PROPERTY + "…"]))
        raise InvalidRequest(f"unknown header {name[:100]}; there are {names}")


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
    return _plain_fields(headers, ROUTING)


def message_fields(headers: Mapping[str, str]) -> dict[str, object]:
    """All that the headers say about a message. Empty entries of `Lakemq-Keys` don't count."""
    fields = _plain_fields(headers, ALL)
    if _KEYS in headers:
        keys = header_text(_KEYS.title(), headers[_KEYS]).split(",")
        fields["keys"] = [key.strip() for key in keys if key.strip()]
    fields["properties"] = {
        name.removeprefix(_PROPERTY): header_text(name, value)
        for name, value in headers.items()
        if name.startswith(_PROPERTY)
    }
    return fields


def _plain_fields(headers: Mapping[str, str], wanted: frozenset[str]) -> dict[str, object]:
    """The texts and the integers among what is wanted."""
    fields: dict[str, object] = {}
    for name in wanted.intersection(headers):
        if name in _TEXTS:
            fields[_TEXTS[name]] = header_text(name.title(), headers[name])
        elif name in _INTEGERS:
            fields[_INTEGERS[name]] = integer_text(_INTEGERS[name], headers[name].strip())
    return fields
