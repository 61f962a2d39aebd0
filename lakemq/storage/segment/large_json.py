"""JSON of what may be large, made piece by piece: who makes it holds up other threads no longer than a piece takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, cast

STEP_BYTES = 3 * 2**16
"""So much is made to text at a time."""
PIECE_BYTES = 2**20
ITEMS_MAX = 1_000
"""So many values are made to text at a time."""


class Base64(str):
    """Text that stands in JSON as it is."""

    __slots__ = ()


def to_base64(data: bytes) -> Base64:
    """The bytes as base64."""
    if len(data) <= STEP_BYTES:
        return Base64(base64.b64encode(data).decode())
    view = memoryview(data)
    return Base64(
        "".join([base64.b64encode(view[at : at + STEP_BYTES]).decode() for at in range(0, len(data), STEP_BYTES)])
    )


def to_json(value: Any) -> list[bytes]:
    """The JSON of values that are made of dicts with texts as keys, lists, texts and numbers, in pieces of about
    `PIECE_BYTES`."""
    pieces: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for part in _parts(value):
        parts.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
    return [*pieces, b"".join(parts)]


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, Base64):
        yield b'"'
        for at in range(0, len(value), PIECE_BYTES):
            yield value[at : at + PIECE_BYTES].encode()
        yield b'"'
    elif isinstance(value, dict):
        yield from _fields(cast("dict[str, Any]", value))
    elif isinstance(value, list | tuple):
        yield from _items(cast("list[Any]", value))
    else:
        yield _dumps(value)


def _fields(fields: dict[str, Any]) -> Iterator[bytes]:
    before = b"{"
    for key, value in fields.items():
        yield before + _dumps(key) + b":"
        yield from _parts(value)
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _items(items: list[Any]) -> Iterator[bytes]:
    if any(isinstance(item, Base64 | dict | list | tuple) for item in items):
        before = b"["
        for item in items:
            yield before
            yield from _parts(item)
            before = b","
        yield b"]"
        return
    yield b"["
    for at in range(0, len(items), ITEMS_MAX):
        yield (b"," if at else b"") + _dumps(items[at : at + ITEMS_MAX])[1:-1]
    yield b"]"


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
