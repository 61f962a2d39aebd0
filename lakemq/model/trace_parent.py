"""A trace that a request or a message belongs to, as W3C Trace Context's `traceparent` says it."""

from __future__ import annotations

import re
from typing import NamedTuple

TRACE_PARENT = "traceparent"
"""The header of a request, and the property of a message."""
PARENT_CHARACTERS_MAX = 128
"""A later version of the standard may add to its 55; more than this is none."""
_TRACE_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class TraceParent(NamedTuple):
    """A span of somebody's, in hex. `sampled`: it is recorded there, so what belongs to it is to be recorded too."""

    trace_id: str
    span_id: str
    sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def trace_parent_of(text: str) -> TraceParent | None:
    """What the text says; None: nothing that the standard calls valid."""
    found = None if len(text) > PARENT_CHARACTERS_MAX else _TRACE_PARENT.fullmatch(text)
    if found is None or found[2] == _NO_TRACE or found[3] == _NO_SPAN or (found[1] == "00" and found[5]):
        return None
    return TraceParent(found[2], found[3], bool(int(found[4], 16) & 1))
