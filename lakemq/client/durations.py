"""Durations as callers give them: a number in the unit that the argument's name ends with, or a `timedelta`."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from lakemq.client.wrong_type import WrongType

Seconds = float | timedelta


def to_seconds(given: Seconds, name: str) -> float:
    """Raises `WrongType` for what is neither."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(cast("object", given), bool) or not isinstance(cast("object", given), int | float):
        raise WrongType(f"{name} is a number of seconds, or a timedelta", given)
    return given
