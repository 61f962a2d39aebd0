"""Results: a line of JSON each, and the table of many."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SHOWN = ("what", "value", "unit", "p50_ms", "p99_ms", "p999_ms", "server_cpu_s", "client_cpu_s", "other_cpu_s")


def emit(what: str, value: float, unit: str, settings: Mapping[str, Any], **more: Any) -> None:
    """Print one result."""
    line = {"what": what, "value": round(value, 4), "unit": unit, "settings": dict(settings), **more}
    print(json.dumps(line), flush=True)


def skip(what: str, why: str) -> None:
    """Print that a measure can't be taken here."""
    print(json.dumps({"what": what, "skipped": why}), flush=True)


def say(text: str) -> None:
    """Tell whoever waits what is going on."""
    print(text, file=sys.stderr, flush=True)


def quantile(sorted_values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed."""
    if not sorted_values:
        return float("nan")
    return sorted_values[min(max(-int(-share * len(sorted_values) // 1) - 1, 0), len(sorted_values) - 1)]


def latencies(values_ns: Iterable[int], prefix: str = "") -> dict[str, float]:
    """p50, p99, p99.9 and the most, in ms."""
    values = sorted(values_ns)
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {f"{prefix}{name}_ms": round(quantile(values, share) / 1e6, 3) for name, share in shares.items()}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The results as Markdown."""
    lines = ["| " + " | ".join(SHOWN) + " |", "|" + " --- |" * len(SHOWN)]
    for row in rows:
        cells = [row.get("skipped") if name == "value" and "skipped" in row else row.get(name, "") for name in SHOWN]
        lines.append("| " + " | ".join(f"{c:,}" if isinstance(c, int | float) else str(c) for c in cells) + " |")
    return "\n".join(lines)
