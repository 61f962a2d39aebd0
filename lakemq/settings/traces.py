"""Traces of the gateway and the jobs."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from lakemq.settings.section import Section, check_url


class Traces(Section):
    """Where spans go, and of what there are any (docs/traces.md)."""

    endpoint: str = ""
    """A collector of OpenTelemetry's that is asked by OTLP over HTTP, such as `http://127.0.0.1:4318`; without it
    OTEL_EXPORTER_OTLP_ENDPOINT of the environment says it, and without either there are no spans. It takes
    `lakemq[otel]`."""
    ratio: float = Field(default=0.0, ge=0, le=1)
    """Of requests that come without a trace this part is recorded, and begins one; of those that come with one those
    are that it says."""
    queue_max: int = Field(default=4_096, ge=1, le=1_000_000)
    """So many spans wait for the collector; past that they are dropped, and counted."""

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if value and "@" in urlsplit(value).netloc:
            raise ValueError("it names no user: OTEL_EXPORTER_OTLP_HEADERS says how a collector knows who asks")
        return check_url(value) if value else ""
