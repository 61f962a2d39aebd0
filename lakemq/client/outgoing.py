"""A message to be sent, and where it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict, cast

from lakemq.client.bodies.encoder import Encoded, Encoder, default_encoder, encode_by
from lakemq.client.bodies.json_value import json_of
from lakemq.client.wrong_type import WrongType
from lakemq.contract.forms import CONTENT_TYPE, JSON
from lakemq.model import names
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_columns import GIVEN, Kind
from lakemq.model.names import check_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to be sent. Only its body is required: `body`, or `json`, any value, which becomes the body.

    Text is sent as UTF-8. The producer's `encoder` encodes a body that is neither bytes nor text; by default it encodes
    dictionaries, lists, dataclasses and pydantic models as JSON. JSON gets a property `content_type`. Use `keys` to
    look the message up later. Subscriptions filter by `tag` and `properties`. `ordering_key`: messages with the same
    key go to the same queue, in order; `queue_id` names the queue. Give at most one of `delay_level` (from 1), `delay`
    (seconds, or a timedelta) and `deliver_at` (with a time zone). `ttl_ms`: the message expires this long after it was
    stored, or due. `priority`: for a topic with priorities, it selects the queue. Raises `InvalidRequest` for a message
    that can't be sent.
    """

    body: Any = None
    tag: str | None = None
    keys: Sequence[str] | str | None = None
    properties: Mapping[str, str] | None = None
    ordering_key: str | None = None
    queue_id: int | None = None
    delay_level: int | None = None
    delay: float | timedelta | None = None
    deliver_at: datetime | None = None
    ttl_ms: int | None = None
    priority: int | None = None
    json: InitVar[Any] = None

    def __post_init__(self, json: Any) -> None:
        fields = check_fields(self.fields())
        if json is not None:
            body, fields = _encoded(_as_json(self.body, json), fields)
            object.__setattr__(self, "body", body)
            object.__setattr__(self, "properties", fields.get("properties"))
        elif self.body is None:
            raise WrongType("a message has a body, or json", None)

    def fields(self) -> MessageFields:
        """All fields except the body."""
        given = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        return cast("MessageFields", given)


class MessageFields(TypedDict, total=False):
    """The fields of `Message` except the body, as keywords of a producer's methods; and `json`, instead of the body."""

    json: Any
    tag: str | None
    keys: Sequence[str] | str | None
    properties: Mapping[str, str] | None
    ordering_key: str | None
    queue_id: int | None
    delay_level: int | None
    delay: float | timedelta | None
    deliver_at: datetime | None
    ttl_ms: int | None
    priority: int | None


class SendReceipt(NamedTuple):
    """Where a message was stored; for a delayed message, where it waits."""

    message_id: str
    broker: str
    topic: str
    queue_id: int
    queue_offset: int
    position: int
    store_time_ms: int


_NAMES = frozenset(MessageFields.__annotations__) - {"json"}
_PLAIN: dict[Kind, tuple[type, str]] = {
    Kind.TEXT: (str, "text"),
    Kind.INT: (int, "a whole number"),
    Kind.LONG: (int, "a whole number"),
}
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    **{column.name: _PLAIN[column.kind] for column in GIVEN if column.kind in _PLAIN},
    "delay_level": (int, "a whole number from 1"),
    "delay": ((int, float, timedelta), "seconds, or a timedelta"),
    "deliver_at": (datetime, "a datetime with a time zone"),
}
_COMMON = {name: kind for name, (kind, _) in _KINDS.items() if kind in (str, int)}
"""What a field mostly is: then nothing more is to be looked at."""
_DELAYS = frozenset({"delay_level", "delay", "deliver_at"})


def parts_of(body: object, fields: MessageFields, encoder: Encoder = default_encoder) -> tuple[bytes, MessageFields]:
    """The bytes and the fields of what a producer's method was given; they share nothing with it that can
    be changed later. Raises `InvalidRequest`, `TypeError` for what no message has, and what the encoder raises."""
    if isinstance(body, Message):
        if fields:
            raise InvalidRequest(f"a Message says everything itself: {', '.join(fields)} belongs in it")
        body, own = body.body, _own(body.fields())
    else:
        json = fields.pop("json", None) if "json" in fields else None
        own = _own(check_fields(fields))
        if json is not None:
            return _encoded(_as_json(body, json), own)
    if isinstance(body, bytes):
        return body, own
    if isinstance(body, str):
        return _utf8("the body", body), own
    if isinstance(body, bytearray):
        return bytes(body), own
    if body is None:
        raise WrongType("a message has a body, or json", None)
    return _encoded(encode_by(encoder, body), own)


def _as_json(body: object, json: object) -> Encoded:
    if body is not None:
        raise InvalidRequest("a message has a body, or json, not both")
    return Encoded(json_of(json), JSON)


def _encoded(made: Encoded, fields: MessageFields) -> tuple[bytes, MessageFields]:
    """With the content type among the properties, where the sender gave none."""
    if made.content_type is not None:
        given = fields.get("properties") or {}
        fields = {**fields, "properties": {CONTENT_TYPE: made.content_type, **given}}
    return made.body, fields


def _own(fields: MessageFields) -> MessageFields:
    """The fields with copies of what whoever sends may change before the message goes."""
    properties = fields.get("properties")
    if properties is not None:
        fields["properties"] = dict(properties)
    keys = fields.get("keys")
    if keys is not None and not isinstance(keys, str):
        fields["keys"] = tuple(keys)
    return fields


def message_of(body: object, fields: MessageFields) -> Message:
    """What a producer's method was given, as a message. Raises as `parts_of`."""
    if not isinstance(body, Message):
        return Message(body=body, **fields)
    if fields:
        parts_of(body, fields)
    return body


def check_fields(fields: MessageFields) -> MessageFields:
    """The fields without those that are None. Raises `InvalidRequest`, and `TypeError` for a name that
    there isn't."""
    if not fields.keys() <= _NAMES:
        unknown = sorted(fields.keys() - _NAMES)[0]
        raise TypeError(f"a message has no {unknown!r}; it may have json, {', '.join(sorted(_NAMES))}")
    if None in fields.values():
        fields = cast("MessageFields", {name: value for name, value in fields.items() if value is not None})
    for name, value in fields.items():
        if type(value) is not _COMMON.get(name):
            _check_type(name, value)
        if isinstance(value, str):
            _check_text("a key" if name == "keys" else name, value)
    if len(fields.keys() & _DELAYS) > 1:
        raise InvalidRequest("a message has at most one of delay_level, delay and deliver_at")
    deliver_at = fields.get("deliver_at")
    if deliver_at is not None and deliver_at.tzinfo is None:
        raise InvalidRequest("deliver_at needs a time zone, such as datetime.timezone.utc")
    queue_id = fields.get("queue_id")
    if queue_id is not None and queue_id < 0:
        raise InvalidRequest(f"queue_id is {queue_id}; ids begin with 0")
    return fields


def _check_type(name: str, value: object) -> None:
    """Raises `WrongType` for what the field can't be."""
    if name == "keys":
        _check_keys(value)
    elif name == "properties":
        if not isinstance(value, Mapping):
            raise WrongType("properties are a mapping of text to text", value)
        pairs = cast("Mapping[object, object]", value)
        for part in (each for pair in pairs.items() for each in pair):
            if not isinstance(part, str):
                raise WrongType("the names and values of properties are text", part)
            _check_text("a property", part)
    elif not isinstance(value, _KINDS[name][0]) or isinstance(value, bool):
        raise WrongType(f"{name} is {_KINDS[name][1]}", value)


def _check_keys(keys: object) -> None:
    if isinstance(keys, str):
        return
    if not isinstance(keys, Sequence) or isinstance(keys, (bytes, bytearray)):
        raise WrongType("keys are text, or a list of texts", keys)
    for key in cast("Sequence[object]", keys):
        if not isinstance(key, str):
            raise WrongType("a key is text", key)
        _check_text("a key", key)


def _check_text(what: str, text: str) -> None:
    """Raises `InvalidRequest` for half a surrogate pair: found later, its batch would be halved down to it."""
    if not text.isascii():
        _utf8(what, text)


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} is no text that UTF-8 can say: {error}") from None


def check_topic(topic: object) -> str:
    """The topic, if it can be one. Raises `WrongType`, `InvalidTopic`; what is the
    system's the broker refuses."""
    if not isinstance(topic, str):
        raise WrongType("a topic is text", topic)
    return check_readable(topic)


def check_group(group: object) -> str:
    """The group, if it can be one. Raises `WrongType`, `InvalidRequest`."""
    if not isinstance(group, str):
        raise WrongType("a group is text", group)
    return names.check_group(group)


def is_delayed(fields: MessageFields) -> bool:
    """Whether the message is not to be delivered at once."""
    return not fields.keys().isdisjoint(_DELAYS)
