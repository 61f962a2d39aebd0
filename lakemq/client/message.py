"""A message as JSON, in both directions."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.client.view import MessageView
from lakemq.model.message import Draft
from lakemq.model.message_columns import ANSWERED


class Nack(NamedTuple):
    """A message to be consumed later. `delay_level` 0: the broker chooses one that grows with each
    time; < 0: straight to the dead letters. `max_reconsume_times` None: as the broker is set. `reason`: why, a text or
    `{"class": …, "text": …}`."""

    message_id: str
    delay_level: int = 0
    max_reconsume_times: int | None = None
    reason: str | Mapping[str, str] | None = None


_ANSWERED = tuple(column.name for column in ANSWERED if column.name != "body")


def encode_draft(draft: Draft) -> dict[str, Any]:
    """The JSON object of a message to be produced; a body that is no UTF-8 goes as base64."""
    said = {name: value for name, value in draft._asdict().items() if value is not None}
    return said | encode_body(draft.body)


def encode_body(body: bytes) -> dict[str, Any]:
    """`body` and, where it is not the default, `body_encoding`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": b64encode(body).decode(), "body_encoding": "base64"}


def encode_message(message: MessageView) -> dict[str, Any]:
    """The JSON object of a message as a receive answers it; what does not apply is left out."""
    encoded = {name: getattr(message, name) for name in _ANSWERED}
    encoded["keys"] = list(message.keys)
    if message.stored_topic != message.topic:
        encoded["stored_topic"] = message.stored_topic
    present = {name: value for name, value in encoded.items() if value not in (None, [], {})}
    return present | encode_body(message.body)
