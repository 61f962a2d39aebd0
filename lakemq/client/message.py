"""A message as JSON, in both directions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakemq.model.message import Draft
from lakemq.model.names import RETRY_PREFIX

_OPTIONAL = tuple(field for field in Draft._fields if field != "body")


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a pull answers it. Times are ms since the epoch.

    `topic` is the one that it was sent to, also when it comes again out of its group's retry topic; `stored_topic` is
    the one that `queue_id` and `queue_offset` are of.
    """

    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    position: int
    store_time_ms: int
    born_time_ms: int
    reconsume_times: int
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    ordering_key: str | None = None
    deliver_at_ms: int | None = None
    real_topic: str | None = None
    real_queue_id: int | None = None
    origin_message_id: str | None = None
    transaction_id: str | None = None
    stored_topic: str = ""


class Nack(NamedTuple):
    """A message to be consumed later. `delay_level` 0: the broker chooses one that grows with each
    time; < 0: straight to the dead letters. `max_reconsume_times` None: as the broker is set."""

    message_id: str
    delay_level: int = 0
    max_reconsume_times: int | None = None


_FIELDS = frozenset(Message.__dataclass_fields__) - {"body", "keys", "topic", "stored_topic"}


def encode_draft(draft: Draft) -> dict[str, Any]:
    """The JSON object of a message to be produced; a body that is no UTF-8 goes as base64."""
    encoded = encode_body(draft.body)
    for name in _OPTIONAL:
        value = getattr(draft, name)
        if value is not None:
            encoded[name] = value
    return encoded


def encode_body(body: bytes) -> dict[str, Any]:
    """`body` and, where it is not the default, `body_encoding`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": b64encode(body).decode(), "body_encoding": "base64"}


def decode_message(content: Mapping[str, Any]) -> Message:
    """A message out of an answer; fields that this version does not know are left out."""
    body: str = content["body"]
    encoded = content.get("body_encoding") == "base64"
    stored: str = content.get("stored_topic") or content["topic"]
    return Message(
        topic=topic_of(stored, content.get("real_topic")),
        stored_topic=stored,
        body=b64decode(body) if encoded else body.encode(),
        keys=tuple(content.get("keys") or ()),
        **{name: value for name, value in content.items() if name in _FIELDS},
    )


def topic_of(stored_topic: str, real_topic: str | None) -> str:
    """The topic that a message was sent to, for whoever consumes it: that of a dead letter is where it is."""
    return (real_topic or stored_topic) if stored_topic.startswith(RETRY_PREFIX) else stored_topic


def encode_message(message: Message) -> dict[str, Any]:
    """The JSON object of a message as a receive answers it; what does not apply is left out."""
    encoded = {name: getattr(message, name) for name in Message.__dataclass_fields__}
    del encoded["body"]
    if encoded["stored_topic"] == message.topic:
        del encoded["stored_topic"]
    encoded["keys"] = list(message.keys)
    present = {name: value for name, value in encoded.items() if value not in (None, [], {})}
    return present | encode_body(message.body)
