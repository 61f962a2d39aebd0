"""The latest of many things, so that those of which there are few are among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def latest_of(things: Iterable[T], kind_of: Callable[[T], Hashable], of_all: int, of_each: int) -> list[T]:
    """Of things, the newest first: so many, and so many of each kind, however many others there are; in their order."""
    found, counts = list[T](), Counter[Hashable]()
    for at, each in enumerate(things):
        counts[kind := kind_of(each)] += 1
        if at < of_all or counts[kind] <= of_each:
            found.append(each)
    return found
