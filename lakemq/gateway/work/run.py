"""How a piece of work is carried out: now, or in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


class Run(Protocol):
    """Calls a function, and returns what it returns."""

    async def __call__(self, work: Callable[[*Ts], R], /, *arguments: *Ts) -> R: ...


async def at_once(work: Callable[[*Ts], R], /, *arguments: *Ts) -> R:
    """The `Run` for what is small."""
    return work(*arguments)
