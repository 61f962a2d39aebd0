"""By which a request is found again: the id that its sender gave it, or one that is made when it is needed, as it fails
or the log tells of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from lakemq.model.request_id import is_request_id, trace_id_of

HEADER = b"x-request-id"
CALLER = "lakemq.caller"
"""Where a request's scope has who asks, who has a `name`."""
_ID = "lakemq.request_id"


def given_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """What the sender calls it; empty: nothing, or nothing that may stand in a log."""
    said = _first(headers, HEADER)
    return said if is_request_id(said) else ""


def request_id_of(scope: Any) -> str:
    """What the sender calls it, or else what it is called from now on."""
    known = scope.get(_ID)
    if known is None:
        known = scope[_ID] = given_id(scope.get("headers", ())) or secrets.token_hex(8)
    return known


def about(scope: Any) -> Mapping[str, str | None]:
    """What a line of the log says of a request beside its message, as `extra`."""
    client = scope.get("client")
    return {
        "request_id": request_id_of(scope),
        "user": getattr(scope.get(CALLER), "name", "") or None,
        "client": client[0] if client else None,
        "trace_id": trace_id_of(_first(scope.get("headers", ()), b"traceparent")),
    }


def _first(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == wanted), "")
