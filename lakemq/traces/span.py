"""A span that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakemq.contract.spans import Kind, Value
from lakemq.model.trace_parent import TraceParent

MS = 1_000_000
"""A millisecond in nanoseconds, in which OpenTelemetry counts."""


class Span(NamedTuple):
    """What was done from `begin_ns` to `end_ns`, since the Unix epoch. `parent` None: it begins a trace. `own`: how the
    span itself is called, where somebody was told of it before. `error`: why it failed; empty: that is known by its
    attributes; None: it did not."""

    name: str
    kind: Kind
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    parent: TraceParent | None = None
    own: TraceParent | None = None
    error: str | None = None
