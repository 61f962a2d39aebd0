"""The rules of a message's fields, for the forms that are decoded one message at a time.

Each check takes what the form's parser gave (None: not there) and raises `InvalidRequest` or
`MessageTooLarge` with the field's name; the caller adds which message it was.
`arrow_values.py` holds the same rules for whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from lakemq.gateway.decode import limits as bounds
from lakemq.gateway.decode.limits import Limits
from lakemq.model.errors import InvalidRequest, MessageTooLarge
from lakemq.model.message import Draft
from lakemq.model.message_columns import GIVEN, TIME_MS_MAX, Column, Kind

WHITESPACE = " \t\r\n\v\f"
"""What a tag can't begin or end with: a tag expression is split at `||` and stripped."""
_DELAYS = ("delay_level", "delay_ms", "deliver_at_ms")
_DIGITS = re.compile(r"-?[0-9]{1,16}\Z")


def draft_of(body: bytes, fields: Mapping[str, object], limits: Limits) -> Draft:
    """The draft of `body` and `fields`, which are named as in the JSON form; each is checked.

    `delay_level` 0 or below means: no delay.
    """
    get = fields.get
    level, delay, deliver = get("delay_level"), get("delay_ms"), get("deliver_at_ms")
    if (level is None) + (delay is None) + (deliver is None) < 2:
        names = " and ".join(name for name in _DELAYS if get(name) is not None)
        raise InvalidRequest(f"at most one of {names} may be given")
    values = _EMPTY.copy()
    values[0] = checked_body(body, limits)
    for name, value in fields.items():
        if value is not None and (found := _CHECKS.get(name)) is not None:
            at, check = found
            values[at] = check(value)
    return Draft._make(values)


def checked_body(body: bytes, limits: Limits) -> bytes:
    """`body`, if it isn't too large."""
    if len(body) > limits.message_bytes_max:
        raise MessageTooLarge(f"body has {len(body)} bytes, more than the {limits.message_bytes_max} of a message")
    return body


def text(name: str, bytes_max: int, value: object) -> str:
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
        raise InvalidRequest(f"{name} must be an integer in decimal digits")
    return int(value)


def _byte_length(value: str) -> int:
    """The bytes of a text in UTF-8; -1 for a text that UTF-8 can't hold."""
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return -1


def _integer(name: str, most: int, value: object, least: int = 0) -> int:
    # bool is an int to Python, and not to JSON.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be an integer")
    if not least <= value <= most:
        raise InvalidRequest(f"{name} must be from {least} to {most}")
    return value


def _tag(name: str, most: int, value: object) -> str:
    tag = text(name, most, value)
    if tag == "*" or "||" in tag or tag.strip(WHITESPACE) != tag:
        raise InvalidRequest("tag can't be '*', hold '||', or begin or end with white space")
    return tag


def _keys(name: str, most: int, value: object) -> list[str] | None:
    if not isinstance(value, list):
        raise InvalidRequest(f"{name} must be a list of strings")
    keys = cast("list[object]", value)
    if len(keys) > bounds.KEYS_MAX:
        raise InvalidRequest(f"{name} has more than {bounds.KEYS_MAX} entries")
    # An entry is named only once it is wrong: names of all of them cost more than the check.
    for at, key in enumerate(keys):
        if not isinstance(key, str) or not 0 < _byte_length(key) <= most:
            text(f"{name}[{at}]", most, key)
    return cast("list[str]", keys) or None


def _properties(value: object) -> dict[str, str] | None:
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


def _check_of(column: Column) -> Callable[[object], object]:
    if column.kind is Kind.MAP:
        return _properties
    if column.least:
        return lambda value: _integer(column.name, column.most, value, column.least)
    check = _tag if column.name == "tag" else _BY_KIND[column.kind]
    return partial(check, column.name, column.most)


def _delay_level(value: object) -> int | None:
    most = bounds.DELAY_LEVEL_MAX
    return max(_integer("delay_level", most, value, -most), 0) or None


_BY_KIND: dict[Kind, Callable[[str, int, object], object]] = {
    Kind.TEXT: text,
    Kind.TEXTS: _keys,
    Kind.INT: _integer,
    Kind.LONG: _integer,
    Kind.TIME: _integer,
}
_CHECK: dict[str, Callable[[object], object]] = {
    **{column.name: _check_of(column) for column in GIVEN if column.name != "body"},
    "delay_level": _delay_level,
    "delay_ms": partial(_integer, "delay_ms", TIME_MS_MAX),
}
if {"body", *_CHECK} != set(Draft._fields):
    raise AssertionError(f"a draft and what a producer may say differ: {set(Draft._fields) ^ {'body', *_CHECK}}")
_CHECKS = {name: (Draft._fields.index(name), check) for name, check in _CHECK.items()}
_EMPTY: list[Any] = [None] * len(Draft._fields)
