"""Content encodings of a request body."""

from __future__ import annotations

import zlib
from typing import Any

from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_BARE = -zlib.MAX_WBITS
_STEP = 65_536
_MEMBERS_MAX = 4_096
"""gzip members a body: each costs a step's copy, however small it is."""


def inflate(content_encoding: str, body: bytes, limit: int) -> bytes:
    """`body` without its content encoding, which may be gzip, deflate or identity.

    Inflates at most `limit` bytes, then raises `MessageTooLarge`. Raises `InvalidRequest` for
    what is truncated, garbled or followed by more, `UnsupportedMediaType` for other encodings.
    """
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return _bounded(body, limit)
    if encoding in ("gzip", "x-gzip"):
        return _inflate_gzip(body, limit)
    if encoding == "deflate":
        return _inflate_deflate(body, limit)
    raise UnsupportedMediaType(f"content encoding {encoding[:40]!r} is not gzip, deflate, identity")


def _inflate_gzip(body: bytes, limit: int) -> bytes:
    """gzip: one member or several, one after the other, as its RFC allows."""
    if not body:
        raise InvalidRequest("the gzip body is empty")
    parts: list[bytes] = []
    room = limit
    at = 0
    while at < len(body):
        if len(parts) == _MEMBERS_MAX:
            raise InvalidRequest(f"the gzip body has more than {_MEMBERS_MAX} members")
        inflater = zlib.decompressobj(_GZIP)
        part, used = _inflate_member(inflater, memoryview(body)[at:], room)
        parts.append(part)
        room -= len(part)
        at += used
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate_deflate(body: bytes, limit: int) -> bytes:
    """deflate: with the zlib header that HTTP asks for, or without, as some clients send it."""
    wrapped = len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    inflater = zlib.decompressobj(_ZLIB if wrapped else _BARE)
    inflated, used = _inflate_member(inflater, memoryview(body), limit)
    if used != len(body):
        raise InvalidRequest("the deflate body is followed by other bytes")
    return inflated


def _inflate_member(inflater: Any, data: memoryview, room: int) -> tuple[bytes, int]:
    """The first member of `data`, and how many bytes of it that took.

    Input goes in by steps, so that what zlib hands back as unused is never more than a step.
    """
    parts: list[bytes] = []
    at = 0
    pending = b""
    while not inflater.eof:
        chunk = pending
        if not chunk:
            chunk = bytes(data[at : at + _STEP])
            at += len(chunk)
        try:
            part: bytes = inflater.decompress(chunk, room + 1)
        except zlib.error as error:
            raise InvalidRequest(f"the body can't be inflated: {error}") from None
        room -= len(part)
        if room < 0:
            raise MessageTooLarge("the body is too large when inflated")
        parts.append(part)
        pending = inflater.unconsumed_tail
        if not inflater.eof and not pending and at >= len(data) and not part:
            raise InvalidRequest("the compressed body is truncated")
    return b"".join(parts), at - len(inflater.unused_data)


def _bounded(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise MessageTooLarge(f"the body has {len(body)} bytes, more than {limit}")
    return body
