"""A request whose route is found, as handlers get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lakemq.gateway.http.asgi import Receive, Scope, Send


class HttpRequest(NamedTuple):
    """A request. `values`: what stands for the names in its route's path, in their order; `query`: of the fields that
    the route knows those that it has."""

    scope: Scope
    receive: Receive
    send: Send
    values: tuple[str, ...]
    query: dict[str, str]


Handler = Callable[[HttpRequest], Awaitable[None]]
"""Answers one request; raises `LakemqError` or `Disconnected`."""
