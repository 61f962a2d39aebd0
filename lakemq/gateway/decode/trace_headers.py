"""A request's trace (W3C Trace Context), as its messages' properties: who consumes them goes on with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakemq.gateway.decode.limits import PROPERTIES_BYTES_MAX, PROPERTIES_MAX
from lakemq.model.message import Draft
from lakemq.model.trace_parent import TRACE_PARENT as PARENT
from lakemq.model.trace_parent import trace_parent_of

STATE = "tracestate"
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
"""What the standard asks every hop to keep at least."""


def traced(drafts: list[Draft], headers: Mapping[str, str]) -> list[Draft]:
    """The drafts, each with the trace that the request came with, unless it has one of its own, or no room for it.
    What is no trace is passed over, as the standard asks for: it is never the message's fault."""
    parent = headers.get(PARENT)
    if parent is None or trace_parent_of(parent) is None:
        return drafts
    state = headers.get(STATE, "")
    trace = {PARENT: parent} | ({STATE: state} if _STATE.fullmatch(state) else {})
    return [_with(each, trace) for each in drafts]


def _with(draft: Draft, trace: Mapping[str, str]) -> Draft:
    own = draft.properties or {}
    if PARENT in own:
        return draft
    properties = {**own, **trace}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if len(properties) > PROPERTIES_MAX or size > PROPERTIES_BYTES_MAX:
        return draft
    return draft._replace(properties=properties)
