"""Work on the event loop that is done step by step, so that others may go on in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Gives None wherever others may go on, and returns what it makes."""


def finish(steps: Steps[T]) -> T:
    """What the steps make, all at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
