"""A request's head that comes again on its connection, all but its query: nobody parses it, or asks the guard, again.

A client that polls sends the same line and headers each time, with another offset in the query.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lakemq.web.asgi import Scope
from lakemq.web.problems import Headers

_PLAIN = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*")
"""A query that the parser of heads would take as it is: what RFC 3986 lets stand in one."""


class KnownHead(NamedTuple):
    """The head of a request that came whole, in one piece, and was found to be one that goes to the application."""

    begin: bytes
    """Up to its query, with the `?`; or all of its target, where there is no query."""
    end: bytes
    """From the query's end on."""
    body_bytes: int
    url: bytes
    """Of its target, what stands in `begin`."""
    headers: Headers
    scope: Scope
    """As it was before the application had it."""

    def query_of(self, data: bytes) -> bytes | None:
        """The query of a request with the same head otherwise, and a body of that size; None: it is another."""
        begin, end = self.begin, self.end
        begun, at = len(begin), len(data) - self.body_bytes - len(end)
        if at < begun or not data.startswith(begin) or not data.startswith(end, at):
            return None
        if at == begun:
            return b""
        query = data[begun:at]
        return query if begin.endswith(b"?") and _PLAIN.fullmatch(query) else None


def known_head(came: bytes, body_bytes: int, url: bytes, headers: Headers, scope: Scope) -> KnownHead | None:
    """What is to be known of a request that came so, whose body has that size; None: nothing, as there is something
    special about it, such as a body in chunks."""
    line = b"%b %b HTTP/1.1\r\n" % (scope["method"].encode(), url)
    size = len(came) - body_bytes
    if not came.startswith(line) or came.find(b"\r\n\r\n") + 4 != size or b"#" in url or not url.startswith(b"/"):
        return None
    path, mark, _ = url.partition(b"?")
    if mark and scope["method"] == "POST":
        return None  # another query could make it one that is served without ASGI
    begun = len(scope["method"]) + 1 + len(path) + len(mark)
    return KnownHead(
        came[:begun], came[len(line) - len(b" HTTP/1.1\r\n") : size], body_bytes, path + mark, headers, scope
    )
