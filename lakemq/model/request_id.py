"""By which a request is found in a log: an id of its sender's, if it is sane, and the trace that it belongs to."""

from __future__ import annotations

import re

from lakemq.model.trace_parent import trace_parent_of

REQUEST_ID_MAX = 128
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:/+=@-]{{1,{REQUEST_ID_MAX}}}")


def is_request_id(text: str) -> bool:
    """Whether it may stand in a log, a header and JSON as it is."""
    return _REQUEST_ID.fullmatch(text) is not None


def trace_id_of(parent: str) -> str | None:
    """The trace's id in a header `traceparent` (W3C Trace Context); None: it is none."""
    found = trace_parent_of(parent)
    return None if found is None else found.trace_id
