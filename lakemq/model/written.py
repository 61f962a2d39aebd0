"""Numbers and times as people read them. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime

Number = float | None
"""None: not known."""
NOT_KNOWN = "–"
_LAST_MS = 253_402_300_799_999
"""The last one that a date can express."""


def count(number: Number) -> str:
    """Such as 12,345."""
    return NOT_KNOWN if number is None or not math.isfinite(number) else f"{number:,.0f}"


def several(number: int, noun: str) -> str:
    """Such as 1 message, 12,345 messages."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def share(number: Number) -> str:
    """Such as 42%."""
    return NOT_KNOWN if number is None else f"{number:.0%}"


def duration(seconds: Number) -> str:
    """In the largest unit that gives at least 2."""
    if seconds is None or math.isnan(seconds):
        return NOT_KNOWN
    if math.isinf(seconds):
        return "never"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count_bytes: int) -> str:
    """In the largest unit that gives at least 2, with one decimal."""
    for unit, length in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count_bytes >= 2 * length:
            return f"{count_bytes / length:,.1f} {unit}"
    return f"{count_bytes} bytes"


def moment(ms: Number) -> str:
    """A time since the epoch, in UTC."""
    if ms is None or not 0 <= ms <= _LAST_MS:
        return NOT_KNOWN
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{int(ms) % 1000:03d}"
