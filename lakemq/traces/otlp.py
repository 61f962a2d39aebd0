"""Spans to a collector by OTLP over HTTP, by OpenTelemetry's own SDK and exporter. Nothing else here imports these."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from lakemq import __version__
from lakemq.model.trace_parent import TraceParent
from lakemq.traces.span import Span


class _Ids(RandomIdGenerator):
    """Ids for spans, but for those that have theirs."""

    def __init__(self) -> None:
        self.own: TraceParent | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.own is None else int(self.own.trace_id, 16)

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.own is None else int(self.own.span_id, 16)


class _Ended(SpanProcessor):
    """Keeps spans as they end."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class Otlp:
    """One collector. One thread exports."""

    def __init__(self, endpoint: str | None, service: str, instance: str) -> None:
        """`endpoint`: the URL that traces are posted to; None: as OpenTelemetry's environment says. `service` and
        `instance` are `service.name` and `service.instance.id`, where that environment says nothing else."""
        said = {"service.name": service, "service.instance.id": instance, "service.version": __version__}
        resource = Resource.create({**said, **OTELResourceDetector().detect().attributes})
        self._ids, self._ended = _Ids(), _Ended()
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )  # who adds a span has asked whether it is to be recorded
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer("lakemq", __version__)
        self._exporter = OTLPSpanExporter(endpoint=endpoint)

    def export(self, spans: Sequence[Span]) -> bool:
        """Whether the collector has taken them, within the time that OTEL_EXPORTER_OTLP_TIMEOUT says, or 10 s."""
        self._ended.spans = []
        for span in spans:
            self._make(span)
        return self._exporter.export(self._ended.spans) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Give up an export that is under way; there are none any more."""
        self._exporter.shutdown()

    def _make(self, span: Span) -> None:
        self._ids.own = span.own
        made = self._tracer.start_span(
            span.name,
            context=_context(span.parent),
            kind=SpanKind[span.kind.upper()],
            attributes=span.attributes,
            start_time=span.begin_ns,
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error or None))
        made.end(span.end_ns)


def _context(parent: TraceParent | None) -> Context:
    if parent is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED)
    above = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(above), Context())
