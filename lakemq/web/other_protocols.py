"""Requests for another protocol, or for a tunnel: none is spoken here, and no tunnel made."""

from __future__ import annotations

from lakemq.web.problems import Headers, make_problem

NO_TUNNEL = make_problem(
    "method_not_allowed", "Method Not Allowed: CONNECT", [(b"allow", b""), (b"connection", b"close")]
)


class Deaf:
    """Stands for the parser behind a CONNECT. What follows is its body to one, and the next request to another: a proxy
    in front may be either, so nobody takes it in."""

    def feed_data(self, data: bytes | memoryview) -> None:
        """Pass over it."""


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """The request as it would be without its wish for another protocol."""
    lines = [method + b" " + url + b" HTTP/" + version.encode()]
    lines += [name + b": " + value for name, value in headers if name != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])
