"""Work on the event loop that is done step by step, so that others may go on in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Steps = Generator[None, None, T]
"""Gives None wherever others may go on, and returns what it makes."""


def finish(steps: Steps[T]) -> T:
    """What the steps make, all at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def copy_each(items: Mapping[K, V], copy: Callable[[V], T], at_once: int) -> Steps[dict[K, T]]:
    """What `copy` makes of each item, of so many in one step."""
    copied: dict[K, T] = {}
    for number, (key, item) in enumerate(list(items.items())):
        if not number % at_once:
            yield
        copied[key] = copy(item)
    return copied
