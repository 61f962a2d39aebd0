"""What the application is told of a request whose head has been read: ASGI's scope."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import unquote

import httptools

from lakemq.web.asgi import Scope
from lakemq.web.problems import Headers
from lakemq.web.seat import SEAT, Seat


class Reading(Protocol):
    """A connection that has read a head."""

    parser: httptools.HttpRequestParser
    url: bytes
    headers: Headers
    seat: Seat
    server: tuple[str, int | None] | None
    client: tuple[str, int] | None
    scheme: str | None
    asgi_version: str
    root_path: str
    app_state: dict[str, object]


def make_scope(connection: Reading) -> Scope:
    """Making one takes as long as half of what a quick request needs. Raises `HttpParserInvalidURLError`."""
    parsed = httptools.parse_url(connection.url)
    path = parsed.path.decode("ascii")
    return {
        "type": "http",
        "asgi": {"version": connection.asgi_version, "spec_version": "2.3"},
        "http_version": connection.parser.get_http_version(),
        "server": connection.server,
        "client": connection.client,
        "scheme": connection.scheme,
        "method": connection.parser.get_method().decode("ascii"),
        "root_path": connection.root_path,
        "path": connection.root_path + (unquote(path) if "%" in path else path),
        "raw_path": connection.root_path.encode() + parsed.path,
        "query_string": parsed.query or b"",
        "headers": connection.headers,
        "state": connection.app_state.copy(),
        SEAT: connection.seat,
    }
