"""The outer timing wheel: in which window of time a cause waits, and what is decided when it is due.

A window follows from a time alone, so the end of a wait finds the window by the time of its entry. The windows of
*early* entries (delays) are by the due time less the *lead*, and are decided as a whole when they begin. So a delay is
decided at least one lead before it is due, and the inner wheel, at the broker, acts on the millisecond. The windows of
all other entries are by the due time itself, and each entry is decided when it is due. Times are milliseconds since the
Unix epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from lakemq.model.decide import of_half, of_nack, of_receipt
from lakemq.model.transaction import Resolution

WINDOW_MS = 16_000
"""The width of a window: narrow enough that few delays are decided long before they are due, and wide enough that there
are few windows, and that few pass while nothing waits."""

CATCH_UP_MS = 3_600_000
"""If a broker's clock advances by more from one batch to the next, the wheel doesn't catch up. A new one begins with
what is pending."""

LISTED_MS = 1_200_000
"""The wheel holds causes that are due within two of these periods at most, however many wait, and however far ahead.
The broker lists the causes of the following period when its clock reaches the next one (`listed_until`)."""

SHARDS = 4
"""How many parts a window has. A batch with changes in one part doesn't rewrite the others."""
SHARD_POSITIONS = 65_536
"""So many consecutive positions of the log are in the same shard, as causes that are stored together often end
together."""


class Entry(IntEnum):
    """The kinds of rows that the wheel gets. The numbers are part of its state."""

    ENDED = -1
    """The entry of that cause is to be removed."""
    CLOCK = 0
    """The broker's clock has reached the window."""
    DELAY = 1
    HALF = 2
    RECEIPT = 3
    NACK = 4
    """This and the kinds below wait for nothing: they are due in the batch that reads them."""
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
    """An entry that is due. `kind`: an `Entry`. `due_ms`: when the cause is due; if its kind waits for nothing, when it
    was stored. `times`: how often the message was retried before, or the half checked. `most`: how often it may be
    retried, < 0: as often as the broker's terms say. `level`: the delay level that a nack asks for, 0: the broker's
    choice."""

    kind: int
    cause: int
    due_ms: int
    times: int
    most: int
    level: int


class Decided(NamedTuple):
    """What to do with a cause, and when; `due_ms` None: now."""

    cause: int
    action: str
    due_ms: int | None


def listed_until(clock_ms: int) -> int:
    """When the broker's clock says `clock_ms`, causes that are due before the result are in the wheel. The broker lists
    the others later. Always one to two `LISTED_MS` ahead."""
    return (clock_ms // LISTED_MS + 2) * LISTED_MS


def decide_due(due: Due, terms: Terms) -> Decided:
    """Decides by the rules of `lakemq.model.decide`. Raises `ValueError` for a kind that is never due."""
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
