"""A sink as it is shown."""

from __future__ import annotations

from typing import Any

from lakemq.gateway.sinks.staging import Staging
from lakemq.storage.state.sinks import Sink


def describe(name: str, known: Sink, staging: Staging) -> dict[str, Any]:
    """A sink as `GET /v1/sinks/{sink}` shows it."""
    staged = staging.of_sink(name)
    return {
        "sink": name,
        "batch": known.batch,
        "progress": known.progress,
        "state": "storing" if known.left else "stored",
        "messages": known.messages,
        "dropped": known.dropped,
        "parts_left": len(known.left),
        "staged_parts": len(staged),
        "staged_bytes": sum(part.bytes for part in staged),
        "changed_ms": known.changed_ms,
    }
