"""Traces of the gateway and the jobs."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from lakemq.settings.section import Section, check_url


class Traces(Section):
    """Where spans go, and which are recorded (docs/traces.md)."""

    endpoint: str = ""
    """The address of an OpenTelemetry collector that speaks OTLP over HTTP, such as `http://127.0.0.1:4318`;
    without it, OTEL_EXPORTER_OTLP_ENDPOINT in the environment, and without either there are no spans. It needs
    `lakemq[otel]`."""
    ratio: float = Field(default=0.0, ge=0, le=1)
    """The fraction of requests without a trace that start one; for requests with a trace, the trace decides."""
    queue_max: int = Field(default=4_096, ge=1, le=1_000_000)
    """The most spans that wait for the collector; more are dropped, and counted."""

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if value and "@" in urlsplit(value).netloc:
            raise ValueError("it must not contain a user: set credentials in OTEL_EXPORTER_OTLP_HEADERS")
        return check_url(value) if value else ""
