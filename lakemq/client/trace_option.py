"""A client's option `tracing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from lakemq.client.tracing import Tracing


def tracing_of(given: bool | TracerProvider) -> Tracing | None:
    """What makes the spans: True, with the process's tracer provider; or with the one given. OpenTelemetry
    is loaded when it is asked for."""
    if given is False:
        return None
    from lakemq.client.tracing import Tracing

    return Tracing() if given is True else Tracing(given)
