"""Of answers of several replicas, one of each broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Replica(Protocol):
    """What one answers. `name`: the broker's. `leads`: whether it says so."""

    @property
    def name(self) -> str: ...

    @property
    def leads(self) -> bool: ...


Answer = TypeVar("Answer", bound=Replica)


def one_of_each(answers: Iterable[Answer]) -> list[Answer]:
    """By name, in their order: the leader's, or the first one's where none leads."""
    found: dict[str, Answer] = {}
    for each in answers:
        if each.name not in found or (each.leads and not found[each.name].leads):
            found[each.name] = each
    return list(found.values())
