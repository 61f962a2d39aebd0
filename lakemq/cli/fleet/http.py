"""What the fleet's other servers answer."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException

_ANSWER_S = 2.0
_BYTES_MAX = 1000


def answer_of(url: str, path: str) -> bytes:
    """The beginning of what it answers; nothing where it doesn't."""
    with closing(HTTPConnection(url.rpartition("/")[2], timeout=_ANSWER_S)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().read(_BYTES_MAX)
        except (OSError, HTTPException):
            return b""
