"""Options for delivering later: how long and when, as people write it on a command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

import typer

DelayLevel = Annotated[int | None, typer.Option("--delay-level", help="Deliver later, by level: 1 is 1 s, 2 is 5 s, …")]
Delay = Annotated[
    str | None, typer.Option("--delay", metavar="DURATION", help="Deliver later: 1500ms, 90s, 10m, 2h, 7d.")
]
DeliverAt = Annotated[
    str | None, typer.Option("--deliver-at", metavar="TIME", help="Deliver at this time: 2026-12-24T18:00, or ms.")
]

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)")
_MOMENTS_MS = range(10**11, 10**14)
"""From 1973 to 5138: a number below is seconds, or a year, and was not meant so."""
_DIGITS_MAX = 20


def delay_of(delay_level: int | None, delay: str | None, deliver_at: str | None) -> dict[str, int]:
    """What the options say, as the field of a draft; nothing where none is given."""
    if sum(option is not None for option in (delay_level, delay, deliver_at)) > 1:
        raise typer.BadParameter("one of them at most", param_hint="--delay-level, --delay, --deliver-at")
    if delay_level is not None:
        return {"delay_level": delay_level}
    if delay is not None:
        return {"delay_ms": milliseconds(delay)}
    return {} if deliver_at is None else {"deliver_at_ms": moment_ms(deliver_at)}


def milliseconds(text: str, option: str = "--delay") -> int:
    """`1500ms`, `90s`, `2.5m`, `1h`, `7d`; raises `BadParameter`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration like 1500ms, 90s, 10m, 2h or 7d", param_hint=option)
    return round(float(found[1]) * _UNIT_MS[found[2]])


def moment_ms(text: str, option: str = "--deliver-at") -> int:
    """A time in ISO 8601, local where it names no zone, or milliseconds since 1970, of which 0 is the begin; raises
    `BadParameter`."""
    if text.strip().isascii() and text.strip().isdigit() and len(text) < _DIGITS_MAX:
        if (number := int(text)) == 0 or number in _MOMENTS_MS:
            return number
        raise typer.BadParameter(f"{number} is no time in milliseconds since 1970", param_hint=option)
    try:
        return round(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no time like 2026-12-24T18:00:00 or 1798135200000", param_hint=option
        ) from None
