"""The outer timing wheel: in which window of time something waits, and what it leads to when its time comes.

A window is found by the time alone, so what ends something finds it by the time that it had. The windows of *early*
entries, delays, are decided whole, one *lead* before they begin: the inner wheel acts on the millisecond. All others
are decided when their own time is over. Times are milliseconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from lakemq.model.decide import of_half, of_nack, of_receipt
from lakemq.model.transaction import Resolution

WINDOW_MS = 16_000
"""Narrow enough that few are decided early, wide enough that there are few windows, and few that pass while nothing
waits."""

CATCH_UP_MS = 3_600_000
"""So far a wheel catches up with a clock that went on. After more, it is made anew of what still waits."""

LISTED_MS = 1_200_000
"""What is due later than the next such stretch of time isn't in the wheel yet: however much waits, and however far off,
the wheel holds what is due within two of them."""

SHARDS = 4
SHARD_POSITIONS = 65_536
"""So many causes that follow one another are of one shard: what is stored together is kept together, and what is
written anew with each batch is a part of a window."""


class Entry(IntEnum):
    """What the wheel is told of. The numbers stand in its state."""

    ENDED = -1
    """What waits for that cause is over."""
    CLOCK = 0
    DELAY = 1
    HALF = 2
    RECEIPT = 3
    NACK = 4
    """This one and those that follow wait for nothing."""
    COMMIT = 5
    ROLLBACK = 6


class Terms(NamedTuple):
    """The settings of a broker that decisions depend on; times in ms."""

    lead_ms: int
    levels_ms: Sequence[int]
    timeout_ms: int
    check_interval_ms: int
    check_max: int
    max_reconsume_times: int


class Due(NamedTuple):
    """An entry whose time is over. `due_ms`: when that was, and of a nack when it was stored. `times`: how often the
    message was retried, or the half checked, before; `most`: how often it may be retried, < 0: the broker's own;
    `level`: of a nack, 0: the broker's choice."""

    kind: int
    cause: int
    due_ms: int
    times: int
    most: int
    level: int


class Decided(NamedTuple):
    """What becomes of a cause; `due_ms` None: now."""

    cause: int
    action: str
    due_ms: int | None


def listed_until(clock_ms: int) -> int:
    """What is due before then is in the wheel of a broker whose clock says that; the rest the broker lists as its time
    comes. Always one to two `LISTED_MS` ahead."""
    return (clock_ms // LISTED_MS + 2) * LISTED_MS


def decide_due(due: Due, terms: Terms) -> Decided:
    """What the entry leads to, by the rules of `lakemq.model.decide`. Raises `ValueError` for what never is due."""
    kind, most = Entry(due.kind), terms.max_reconsume_times if due.most < 0 else due.most
    if kind is Entry.DELAY:
        return Decided(due.cause, "deliver", due.due_ms)
    if kind is Entry.RECEIPT:
        return Decided(due.cause, of_receipt(due.times, most).action, due.due_ms)
    if kind is Entry.NACK:
        decided = of_nack(due.times, due.level, most, terms.levels_ms, due.due_ms)
        return Decided(due.cause, decided.action, decided.due_ms)
    if kind is Entry.HALF:
        return Decided(due.cause, of_half(due.times, terms.check_max, None).action, None)
    if kind in _RESOLUTIONS:
        return Decided(due.cause, of_half(due.times, terms.check_max, _RESOLUTIONS[kind]).action, None)
    raise ValueError(f"{kind.name} is never due")


_RESOLUTIONS: dict[Entry, Resolution] = {Entry.COMMIT: "commit", Entry.ROLLBACK: "rollback"}
