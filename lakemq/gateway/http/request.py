"""What a request has to be to be served, whoever serves it, and what handlers get of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lakemq.contract.route import Reads, Route
from lakemq.gateway.http.asgi import Receive, Scope, Send, check_json, check_names, has_body, no_fields, parse_query
from lakemq.gateway.http.problems import Headers
from lakemq.model.errors import InvalidRequest


class HttpRequest(NamedTuple):
    """A request, as handlers get it. `values`: what stands for the names in its route's path, in their order; `query`:
    of the fields that the route knows those that it has."""

    scope: Scope
    receive: Receive
    send: Send
    values: tuple[str, ...]
    query: dict[str, str]


def check_head(route: Route, headers: Headers) -> None:
    """Raise unless these are headers that the route takes: `InvalidRequest`, `UnsupportedMediaType`. Every request
    passes here; one whose head is, byte for byte, that of the one before on its connection has passed then."""
    if route.reads is not Reads.MESSAGES:
        no_fields(headers)
    if route.reads is Reads.JSON and has_body(headers):
        check_json(headers)


def read_query(route: Route, query_string: bytes) -> dict[str, str]:
    """The fields of the query, if they are such as the route knows. Raises `InvalidRequest`."""
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
