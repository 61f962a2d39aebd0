"""The few pieces of ASGI that the hot paths use directly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from lakemq.gateway.problems import Answer
from lakemq.model.errors import InvalidRequest, MessageTooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

QUERY_BYTES_MAX = 16 * 1024


class Disconnected(Exception):
    """The client went away before its request was whole."""


async def read_body(receive: Receive, bytes_max: int) -> bytes:
    """The request's body; raises `MessageTooLarge` as soon as it is, and `Disconnected`."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    body: bytes = message["body"]
    if not message["more_body"]:
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        return body
    pieces = [body]
    size = len(body)
    while message["more_body"]:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        pieces.append(message["body"])
        size += len(message["body"])
        if size > bytes_max:
            raise _too_large(bytes_max)
    return b"".join(pieces)


def _too_large(bytes_max: int) -> MessageTooLarge:
    return MessageTooLarge(f"the request's body is larger than {bytes_max} bytes")


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def parse_query(query: bytes) -> dict[str, str]:
    """The query's fields; raises `InvalidRequest` for one that is given twice or can't be read."""
    if not query:
        return {}
    if len(query) > QUERY_BYTES_MAX:
        raise InvalidRequest(f"the query has more than {QUERY_BYTES_MAX} bytes")
    fields: dict[str, str] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError:
        raise InvalidRequest("the query can't be read as URL-encoded UTF-8 fields") from None
    for name, value in pairs:
        if name in fields:
            raise InvalidRequest(f"the query has {name[:100]!r} twice")
        fields[name] = value
    return fields


def check_names(query: dict[str, str], allowed: frozenset[str]) -> None:
    """Raise `InvalidRequest` for a field that the path doesn't know."""
    for name in query:
        if name not in allowed:
            raise InvalidRequest(f"unknown query field {name[:100]!r}; there are {', '.join(sorted(allowed))}")


def parse_int(query: dict[str, str], name: str, default: int | None, least: int, most: int) -> int:
    """An integer field of the query; raises `InvalidRequest`. `default` None: it is needed."""
    text = query.get(name)
    if text is None:
        if default is None:
            raise InvalidRequest(f"the query lacks {name!r}")
        return default
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 19:
        raise InvalidRequest(f"{name} is no integer: {text[:100]!r}")
    number = int(text)
    if not least <= number <= most:
        raise InvalidRequest(f"{name} is {number}; it may be {least} to {most}")
    return number
