"""When a message is delivered: delay levels and due times. The states of a delay are lettered in
docs/routing.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

DELAY_MS_MAX = 366 * 24 * 3_600_000
"""A year, and the day that some have more."""
LEVELS_MAX = 100

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)\Z")


class DelayState(StrEnum):
    """The states of a scheduled message."""

    WAITING = "W"
    DECIDED = "D"
    DELIVERED = "V"
    RECALLED = "R"
    MOVED = "M"
    DROPPED = "L"


def parse_levels(text: str) -> tuple[int, ...]:
    """The delays in ms of levels 1, 2, … as RocketMQ writes them: `1s 5s 10s 30s 1m 2h`.

    Raises `ValueError`.
    """
    delays: list[int] = []
    for word in text.split():
        found = _LEVEL.match(word)
        if found is None:
            raise ValueError(f"{word[:50]!r} is no delay such as 30s, 5m or 2h")
        delay_ms = int(found.group(1)) * _UNIT_MS[found.group(2)]
        if delay_ms > DELAY_MS_MAX:
            raise ValueError(f"{word!r} is more than a year")
        delays.append(delay_ms)
    if not 1 <= len(delays) <= LEVELS_MAX:
        raise ValueError(f"1 to {LEVELS_MAX} levels are needed")
    return tuple(delays)


LEVELS_MS = parse_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
"""RocketMQ's: what brokers have unless they are set otherwise."""


def delay_of_level(level: int, levels_ms: Sequence[int]) -> int:
    """The delay in ms of a level ≥ 1; above the highest is the highest."""
    return levels_ms[min(level, len(levels_ms)) - 1]


def level_of_delay(delay_ms: int, levels_ms: Sequence[int]) -> int | None:
    """The level with the shortest delay that is no shorter than that; None where all are shorter."""
    long_enough = [(of_level, number) for number, of_level in enumerate(levels_ms, 1) if of_level >= delay_ms]
    return min(long_enough)[1] if long_enough else None


def due_time(
    now_ms: int,
    levels_ms: Sequence[int],
    level: int | None = None,
    delay_ms: int | None = None,
    deliver_at_ms: int | None = None,
) -> int | None:
    """When a message of now is due, of whichever of the three it was given; None: at once."""
    if level:
        return now_ms + delay_of_level(level, levels_ms)
    if delay_ms:
        return now_ms + delay_ms
    if deliver_at_ms is not None and deliver_at_ms > now_ms:
        return deliver_at_ms
    return None
