"""The few pieces of ASGI that are used directly, and what a request is checked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

from starlette.exceptions import HTTPException

from lakemq.contract.media_type import check_utf8, media_type
from lakemq.contract.route import Field
from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType
from lakemq.web.problems import Answer, identified

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Client = str | None
"""A client's address; None: nobody's in particular."""

QUERY_BYTES_MAX = 16 * 1024
QUERY_FIELDS_MAX = 64
DRAIN_BYTES_MAX = 64 * 1024 * 1024
DRAIN_S_MAX = 5.0
JOINED_BYTES_MAX = 4 * 1024 * 1024
"""Of a body's pieces: more take long to put together."""


class Disconnected(Exception):
    """The client went away before its request was whole."""


async def read_body(receive: Receive, bytes_max: int) -> bytes:
    """The request's body. Raises `MessageTooLarge` as soon as it is, and `Disconnected`. That all bodies which are
    being read aren't too large together is the connections' matter (`watch.Uploads`)."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    body: bytes = message["body"]
    if not message["more_body"]:
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        return body
    return await _read_pieces(receive, body, bytes_max)


async def _read_pieces(receive: Receive, first: bytes, bytes_max: int) -> bytes:
    pieces = [first]
    size = len(first)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece, more = message["body"], message["more_body"]
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            pieces.clear()
            await drain(receive, more)
            raise _too_large(bytes_max)
    if size > JOINED_BYTES_MAX:
        return await asyncio.to_thread(b"".join, pieces)
    return b"".join(pieces)


async def drain(receive: Receive, more: bool) -> None:
    """Read on and throw away, within bounds, so that a client that is still sending sees the answer:
    closing a connection that has unread bytes resets it."""
    left = DRAIN_BYTES_MAX
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S_MAX):
            while more and left > 0:
                message = await receive()
                more = message.get("more_body", False)
                left -= len(message.get("body", b""))


def _too_large(bytes_max: int) -> MessageTooLarge:
    return MessageTooLarge(f"the request's body is larger than {bytes_max} bytes")


def bounded(receive: Receive, bytes_max: int) -> Receive:
    """`receive` for an application that reads bodies of any size: past `bytes_max` it raises 413."""
    size = 0

    async def receive_bounded() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > bytes_max:
            await drain(receive, message.get("more_body", False))
            raise HTTPException(413, f"the request's body is larger than {bytes_max} bytes")
        return message

    return receive_bounded


def client_of(scope: Scope) -> Client:
    """The address that a request comes from."""
    client = scope.get("client")
    return client[0] if client else None


class Whole:
    """Whose `send` can do without ASGI's messages, for an answer that is whole."""

    def answer_at_once(self, answer: Answer) -> bool:
        """Send the answer; False when there is something special about it, and nothing has happened."""
        raise NotImplementedError


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    sender = getattr(send, "__self__", None)
    if isinstance(sender, Whole) and sender.answer_at_once(answer):
        return
    headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def refuse(answer: Answer) -> App:
    """An application that answers that problem to each request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, identified(answer, scope))

    return app


def parse_query(query: bytes) -> dict[str, str]:
    """The query's fields; raises `InvalidRequest` for one that is given twice or can't be read."""
    if not query:
        return {}
    if len(query) > QUERY_BYTES_MAX:
        raise InvalidRequest(f"the query has more than {QUERY_BYTES_MAX} bytes")
    fields: dict[str, str] = {}
    # As `urllib.parse.parse_qsl` does it, but that takes as long for one field as this for all.
    plain = b"%" not in query and b"+" not in query
    try:
        pairs = query.decode("ascii").split("&", QUERY_FIELDS_MAX)
        if len(pairs) > QUERY_FIELDS_MAX:
            raise InvalidRequest(f"the query has more than {QUERY_FIELDS_MAX} fields")
        for pair in pairs:
            if not pair:
                continue
            name, _, value = pair.partition("=")
            if not plain:
                name, value = unquote_plus(name, errors="strict"), unquote_plus(value, errors="strict")
            if name in fields:
                raise InvalidRequest(f"the query has {name[:100]!r} twice")
            fields[name] = value
    except ValueError:
        raise InvalidRequest("the query can't be read as URL-encoded UTF-8 fields") from None
    return fields


def check_names(query: dict[str, str], allowed: frozenset[str]) -> None:
    """Raise `InvalidRequest` for a field that the path doesn't know."""
    if query.keys() <= allowed:
        return
    for name in query:
        if name not in allowed:
            raise InvalidRequest(f"unknown query field {name[:100]!r}; there are {', '.join(sorted(allowed))}")


def check_json(content_type: bytes | None) -> None:
    """Raise `UnsupportedMediaType` unless the body is called JSON. Pages of other sites can send what is called
    something else, or nothing, without asking first."""
    if content_type == b"application/json":
        return
    text = (content_type or b"").decode("latin-1")
    if media_type(text) != "application/json":
        raise UnsupportedMediaType("the body is JSON, and Content-Type has to say so: application/json")
    check_utf8(text)


def parse_int(query: dict[str, str], field: Field, most: int) -> int:
    """An integer field of the query, which has a default or is required; raises `InvalidRequest`."""
    name, least = field.name, field.least or 0
    text = query.get(name)
    if text is None:
        if not isinstance(field.default, int):
            raise InvalidRequest(f"the query lacks {name!r}")
        return field.default
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 19:
        raise InvalidRequest(f"{name} is no integer: {text[:100]!r}")
    number = int(text)
    if not least <= number <= most:
        raise InvalidRequest(f"{name} is {number}; it may be {least} to {most}")
    return number
