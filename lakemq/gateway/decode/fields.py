"""The rules of a message's fields, for the forms that are decoded one message at a time.

Each check takes what the form's parser gave (None: not there) and raises `InvalidRequest` or
`MessageTooLarge` with the field's name; the caller adds which message it was.
`arrow_values.py` holds the same rules for whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from lakemq.gateway.decode import limits as bounds
from lakemq.gateway.decode.limits import Limits
from lakemq.model.errors import InvalidRequest, MessageTooLarge
from lakemq.model.message import Draft

WHITESPACE = " \t\r\n\v\f"
"""What a tag can't begin or end with: a tag expression is split at `||` and stripped."""
_DELAYS = ("delay_level", "delay_ms", "deliver_at_ms")
_DIGITS = re.compile(r"[0-9]{1,16}\Z")


def draft_of(body: bytes, fields: Mapping[str, object], limits: Limits) -> Draft:
    """The draft of `body` and `fields`, which are named as in the JSON form; each is checked.

    `delay_level` 0 means: no delay.
    """
    get = fields.get
    level, delay, deliver = get("delay_level"), get("delay_ms"), get("deliver_at_ms")
    if (level is None) + (delay is None) + (deliver is None) < 2:
        names = " and ".join(name for name in _DELAYS if get(name) is not None)
        raise InvalidRequest(f"at most one of {names} may be given")
    ordering_key = get("ordering_key")
    if ordering_key is not None:
        ordering_key = text("ordering_key", ordering_key, bounds.ORDERING_KEY_BYTES_MAX)
    return Draft(
        checked_body(body, limits),
        _tag(get("tag")),
        _keys(get("keys")),
        _properties(get("properties")),
        ordering_key,
        queue_id=_integer("queue_id", get("queue_id"), bounds.QUEUE_ID_MAX),
        born_time_ms=_integer("born_time_ms", get("born_time_ms"), bounds.TIME_MS_MAX),
        delay_level=_integer("delay_level", level, bounds.DELAY_LEVEL_MAX) or None,
        delay_ms=_integer("delay_ms", delay, bounds.TIME_MS_MAX),
        deliver_at_ms=_integer("deliver_at_ms", deliver, bounds.TIME_MS_MAX),
    )


def checked_body(body: bytes, limits: Limits) -> bytes:
    """`body`, if it isn't too large."""
    if len(body) > limits.message_bytes_max:
        raise MessageTooLarge(f"body has {len(body)} bytes, more than the {limits.message_bytes_max} of a message")
    return body


def text(name: str, value: object, bytes_max: int) -> str:
    """`value`, if it is a string of 1 to `bytes_max` bytes in UTF-8."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be a string")
    if not value:
        raise InvalidRequest(f"{name} is empty")
    size = _byte_length(value)
    if size < 0:
        raise InvalidRequest(f"{name} is no valid Unicode: it has a lone surrogate")
    if size > bytes_max:
        raise InvalidRequest(f"{name} is longer than {bytes_max} bytes")
    return value


def integer_text(name: str, value: str) -> int:
    """The integer that a header holds."""
    if not _DIGITS.match(value):
        raise InvalidRequest(f"{name} must be an integer from 0 in decimal digits")
    return int(value)


def _byte_length(value: str) -> int:
    """The bytes of a text in UTF-8; -1 for a text that UTF-8 can't hold."""
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return -1


def _integer(name: str, value: object, most: int) -> int | None:
    if value is None:
        return None
    # bool is an int to Python, and not to JSON.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be an integer")
    if not 0 <= value <= most:
        raise InvalidRequest(f"{name} must be from 0 to {most}")
    return value


def _tag(value: object) -> str | None:
    if value is None:
        return None
    tag = text("tag", value, bounds.TAG_BYTES_MAX)
    if tag == "*" or "||" in tag or tag.strip(WHITESPACE) != tag:
        raise InvalidRequest("tag can't be '*', hold '||', or begin or end with white space")
    return tag


def _keys(value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidRequest("keys must be a list of strings")
    keys = cast("list[object]", value)
    if len(keys) > bounds.KEYS_MAX:
        raise InvalidRequest(f"keys has more than {bounds.KEYS_MAX} entries")
    # An entry is named only once it is wrong: names of all of them cost more than the check.
    for at, key in enumerate(keys):
        if not isinstance(key, str) or not 0 < _byte_length(key) <= bounds.KEY_BYTES_MAX:
            text(f"keys[{at}]", key, bounds.KEY_BYTES_MAX)
    return cast("list[str]", keys) or None


def _properties(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidRequest("properties must be an object of strings")
    given = cast("dict[str, object]", value)
    if len(given) > bounds.PROPERTIES_MAX:
        raise InvalidRequest(f"properties has more than {bounds.PROPERTIES_MAX} entries")
    size = 0
    for name, entry in given.items():
        if not name:
            raise InvalidRequest("properties has an entry with an empty name")
        if not isinstance(entry, str):
            raise InvalidRequest(f"property {name[:100]!r} must be a string")
        name_size, entry_size = _byte_length(name), _byte_length(entry)
        if name_size < 0 or entry_size < 0:
            raise InvalidRequest(f"property {name[:100]!r} is no valid Unicode")
        size += name_size + entry_size
    if size > bounds.PROPERTIES_BYTES_MAX:
        raise InvalidRequest(f"properties has more than {bounds.PROPERTIES_BYTES_MAX} bytes")
    return cast("dict[str, str]", given) or None
