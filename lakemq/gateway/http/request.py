"""A request whose route is found, as handlers get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lakemq.contract.route import Route
from lakemq.gateway.http.asgi import Receive, Scope, Send, check_names, parse_query
from lakemq.model.errors import InvalidRequest


class HttpRequest(NamedTuple):
    """A request. `values`: what stands for the names in its route's path, in their order; `query`: of the fields that
    the route knows those that it has."""

    scope: Scope
    receive: Receive
    send: Send
    values: tuple[str, ...]
    query: dict[str, str]


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
