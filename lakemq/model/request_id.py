"""By which a request is found in a log: an id of its sender's, if it is sane, and the trace that it belongs to."""

from __future__ import annotations

import re

REQUEST_ID_MAX = 128
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:/+=@-]{{1,{REQUEST_ID_MAX}}}")
_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


def is_request_id(text: str) -> bool:
    """Whether it may stand in a log, a header and JSON as it is."""
    return _REQUEST_ID.fullmatch(text) is not None


def trace_id_of(parent: str) -> str | None:
    """The trace's id in a header `traceparent` (W3C Trace Context); None: it is none."""
    found = _TRACE_PARENT.fullmatch(parent)
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN or (parent.startswith("00") and found[3]):
        return None
    return found[1]
