"""Spans of this process, where nothing goes out of it."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.traces.span import Span


class Kept:
    """An exporter that keeps what it gets, and fails on what is called so."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def export(self, spans: Sequence[Span]) -> bool:
        if any(span.name == "bad" for span in spans):
            raise ValueError("bad")
        self.spans += spans
        return True

    def close(self) -> None:
        pass
