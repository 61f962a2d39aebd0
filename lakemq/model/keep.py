"""How much of a topic the lake keeps: so long, so many bytes, or both. `30d`, `500MiB`, `30d 10GiB`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from lakemq.model.names import is_system

_PART = re.compile(r"(\d+)(ms|s|m|h|d|B|KiB|MiB|GiB|TiB)\Z")
_TIMES_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


class Keep(NamedTuple):
    """Messages older than `age_ms` go, and the oldest until the bodies are `bytes` at most; None: no limit."""

    age_ms: int | None = None
    bytes: int | None = None


def parse_keep(text: str) -> Keep:
    """Raises `ValueError` for what is no limit of time, of bytes, or one of each."""
    age_ms, size = None, None
    parts = text.split()
    for part in parts:
        found = _PART.match(part)
        if found is None:
            raise ValueError(f"{part!r} is no time (12h, 30d) and no size (500MiB, 10GiB)")
        number, unit = int(found[1]), found[2]
        if unit in _TIMES_MS and age_ms is None:
            age_ms = number * _TIMES_MS[unit]
        elif unit in _SIZES and size is None:
            size = number * _SIZES[unit]
        else:
            raise ValueError(f"{part!r} is a second limit of its kind")
    if not parts:
        raise ValueError("neither a time nor a size")
    return Keep(age_ms, size)


def keep_of(topic: str, rules: Mapping[str, str]) -> Keep | None:
    """The first rule whose pattern (`*`, `?`, `[…]`) matches; None: everything is kept.

    A system topic is matched only by patterns that begin as system topics do: `*` leaves it alone.
    """
    for pattern, text in rules.items():
        if fnmatchcase(topic, pattern) and is_system(pattern) == is_system(topic):
            return parse_keep(text)
    return None
