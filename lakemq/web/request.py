"""What a request has to be to be served, whoever serves it, and what handlers get of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lakemq.contract.route import Reads, Route
from lakemq.model.errors import InvalidRequest
from lakemq.web.asgi import Receive, Scope, Send, check_json, check_names, parse_query
from lakemq.web.problems import Headers


class HttpRequest(NamedTuple):
    """A request, as handlers get it. `values`: what stands for the names in its route's path, in their order; `query`:
    of the fields that the route knows those that it has."""

    scope: Scope
    receive: Receive
    send: Send
    values: tuple[str, ...]
    query: dict[str, str]


def check_head(route: Route, headers: Headers) -> bool:
    """Raise unless these are headers that the route takes: `InvalidRequest`, `UnsupportedMediaType`. Every request
    passes here; one whose head is, byte for byte, that of the one before on its connection has passed then. Returns
    whether there is a body that none but the handler of the route may read."""
    reads = route.reads
    if reads is Reads.MESSAGES:
        return False
    content_type, has_body = None, False
    for name, value in headers:  # one pass: each commit of a transaction comes here
        if name == b"content-type":
            content_type = value if content_type is None else content_type
        elif name == b"content-length":
            has_body = has_body or bool(value.strip(b"0 "))
        elif name == b"transfer-encoding":
            has_body = True
        elif name[:7] == b"lakemq-":
            raise InvalidRequest(f"header {name[:100].decode('latin-1')!r} means nothing here")
    if has_body and reads is Reads.JSON:
        check_json(content_type)
    return has_body and reads is Reads.NOTHING


def read_query(route: Route, query_string: bytes) -> dict[str, str]:
    """The fields of the query, if they are such as the route knows. Raises `InvalidRequest`."""
    if not query_string and not route.needed:
        return {}
    query = parse_query(query_string)
    check_names(query, route.names)
    for field in route.bound:
        value = query.get(field.name)
        if value is None:
            if field.required:
                raise InvalidRequest(f"the query lacks {field.name!r}")
        elif field.choices and value not in field.choices:
            raise InvalidRequest(f"{field.name} is one of {', '.join(field.choices)}, not {value[:100]!r}")
    return query


Handler = Callable[[HttpRequest], Awaitable[None]]
"""Answers one request; raises `LakemqError` or `Disconnected`."""
