"""Spans of batches: of each that a job's query does, and has rows, one begins a trace of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import NamedTuple

from lakemq.contract import spans as names
from lakemq.model.trace_parent import TraceParent
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans


class Batch:
    """One that is under way. `rows`: how many it has, for its query to say. `own`: its span, for what belongs to it;
    None: it has none."""

    def __init__(self, own: TraceParent | None) -> None:
        self.own = own
        self.rows = 0


class BatchDone(NamedTuple):
    """One that has ended. `error`: its code; empty: it did its work."""

    job: str
    rows: int
    ended_ms: int
    took_ms: int
    error: str


class BatchSpans:
    """Where a process's batches are told of; `spans` None: they have no spans. `observe` is told of each that ends."""

    def __init__(
        self,
        spans: Spans | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        observe: Callable[[BatchDone], None] | None = None,
    ) -> None:
        self._spans = spans
        self._now_ms = now_ms
        self._observe = observe

    @contextmanager
    def batch(self, job: str) -> Generator[Batch]:
        """A batch of that job's. What is raised within fails its span, and goes on."""
        if self._spans is None and self._observe is None:
            yield Batch(None)
            return
        own = TraceParent(secrets.token_hex(16), secrets.token_hex(8), sampled=True) if self._spans else None
        batch = Batch(own)
        begun_ns, error = perf_counter_ns(), ""
        try:
            yield batch
        except BaseException as raised:
            error = getattr(raised, "code", type(raised).__name__)
            raise
        finally:
            took_ns = perf_counter_ns() - begun_ns
            if self._observe is not None:
                self._observe(BatchDone(job, batch.rows, self._now_ms(), took_ns // MS, error))
            if self._spans is not None and (batch.rows or error):
                self._add(self._spans, job, batch, took_ns, error)

    def _add(self, spans: Spans, job: str, batch: Batch, took_ns: int, error: str) -> None:
        end_ns = self._now_ms() * MS
        said: dict[str, names.Value] = {names.JOB: job, names.ROWS: batch.rows}
        if error:
            said[names.ERROR] = error
        failed = "" if error else None
        spans.add(Span(f"{names.BATCH} {job}", "internal", end_ns - took_ns, end_ns, said, own=batch.own, error=failed))


NO_BATCHES = BatchSpans()
