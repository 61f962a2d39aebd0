"""Decisions as they stand in the log: many in one message, 16 bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple


class Decision(NamedTuple):
    """That the scheduled message at position `cause` is delivered at `due_ms`."""

    cause: int
    due_ms: int


def pack_decisions(decisions: Iterable[Decision]) -> bytes:
    """The body of a decision record: pairs of little-endian 64-bit integers, cause and due time."""
    numbers = array("q")
    for decision in decisions:
        numbers.extend(decision)
    return numbers.tobytes()


def unpack_decisions(body: bytes) -> list[Decision]:
    """The decisions that `pack_decisions` wrote."""
    numbers = array("q")
    numbers.frombytes(body)
    return [Decision(cause, due) for cause, due in zip(numbers[::2], numbers[1::2], strict=True)]
