"""JSON documents, read with bounds on depth and on memory."""

from __future__ import annotations

import binascii
import json
from typing import Any, cast

import orjson

from lakemq.gateway.decode.limits import JSON_VALUES_MAX
from lakemq.model.errors import InvalidRequest, MessageTooLarge

_STEP = 1_048_576


class _Number:
    """A number as it was written, so that it is passed on with every digit."""

    __slots__ = ("digits",)

    def __init__(self, digits: str) -> None:
        self.digits = digits


_exact = json.JSONDecoder(parse_float=_Number, parse_int=_Number)


def read_json(document: bytes) -> object:
    """The value of a JSON document in UTF-8; raises `InvalidRequest` or `MessageTooLarge`."""
    _check_values(document)
    try:
        return cast("object", orjson.loads(document))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"no valid JSON: {error}") from None


def read_exact_json(document: bytes) -> Any:
    """What `read_json` took, again, for `write_json`: its numbers keep the digits they have."""
    try:
        return _exact.decode(document.decode())
    except (ValueError, RecursionError):
        raise InvalidRequest("no valid JSON, or nested too deeply") from None


def write_json(value: object) -> bytes:
    """The compact text of a value of `read_exact_json`."""
    try:
        return orjson.dumps(value, default=_write_number)
    except (TypeError, RecursionError):
        raise InvalidRequest("JSON is nested too deeply") from None


def read_base64(name: str, text: object) -> bytes:
    """The bytes of strict base64: standard alphabet, padded, nothing around it."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{name} must be a string")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise InvalidRequest(f"{name} is no valid base64") from None


def read_text(name: str, text: object) -> bytes:
    """The UTF-8 of a string."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{name} must be a string")
    return text.encode()


def _write_number(value: object) -> object:
    if isinstance(value, _Number):
        return orjson.Fragment(value.digits)
    raise TypeError


def _check_values(document: bytes) -> None:
    """Refuse a document whose many tiny values would take far more memory than its text."""
    if len(document) <= JSON_VALUES_MAX or _separators(document) <= JSON_VALUES_MAX:
        return
    # Most of them may stand inside strings, so those outside are counted. Without escapes, every
    # quote begins or ends a string.
    document = document.replace(rb"\\", b"").replace(rb"\"", b"")
    # A separator stands before each value or each name and value, which are two strings at most.
    many = document.count(b'"') > 4 * (JSON_VALUES_MAX + 1)
    if many or _separators_outside(document) > JSON_VALUES_MAX:
        raise MessageTooLarge(f"the JSON document has more than {JSON_VALUES_MAX} values")


def _separators_outside(document: bytes) -> int:
    """The separators that are in no string, by steps: the pieces of one are many."""
    count = 0
    inside = 0
    for start in range(0, len(document), _STEP):
        pieces = document[start : start + _STEP].split(b'"')
        count += _separators(b"".join(pieces[inside::2]))
        inside ^= len(pieces) % 2 ^ 1
    return count


def _separators(document: bytes) -> int:
    # By steps: each call keeps the interpreter from everybody else.
    return sum(
        document.count(separator, start, start + _STEP)
        for start in range(0, len(document), _STEP)
        for separator in (b",", b"[", b"{")
    )
