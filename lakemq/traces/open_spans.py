"""Whether a process has spans, and where they go."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from lakemq.settings import Traces
from lakemq.traces.spans import Spans

logger = logging.getLogger(__name__)

_PATH = "/v1/traces"
_OF_OTEL = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


def open_spans(settings: Traces, service: str, instance: str, environment: Mapping[str, str]) -> Spans | None:
    """The process's spans; None where neither the settings nor OpenTelemetry's environment say where they go, or that
    says that there are none: then nothing of OpenTelemetry is loaded.

    Raises `ModuleNotFoundError` where `traces.endpoint` is set and `lakemq[otel]` isn't there.
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    if not settings.endpoint and not _by_environment(environment):
        return None
    try:
        from lakemq.traces.otlp import Otlp  # here: who has no collector needs none of what it imports
    except ModuleNotFoundError as error:
        if settings.endpoint or (error.name or "").startswith("lakemq"):
            raise
        logger.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but spans need lakemq[otel]: %s", error)
        return None
    endpoint = settings.endpoint
    if endpoint and not endpoint.endswith(_PATH):
        endpoint += _PATH
    return Spans(Otlp(endpoint or None, service, instance), settings.queue_max)


def _by_environment(environment: Mapping[str, str]) -> bool:
    if not any(environment.get(name) for name in _OF_OTEL):
        return False
    protocol = next((said for name in _PROTOCOLS if (said := environment.get(name))), _SPOKEN)
    if protocol != _SPOKEN:
        logger.warning("no spans are exported: OTEL_EXPORTER_OTLP_PROTOCOL is %.40r, not %s", protocol, _SPOKEN)
    return protocol == _SPOKEN
