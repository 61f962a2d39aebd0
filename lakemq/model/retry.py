"""The states of a message that a consumer could not process, or did not acknowledge, lettered as in
docs/routing.md. `lakemq.model.decide` says what happens to it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

FIRST_LEVEL = 3
"""The level of the first retry, as RocketMQ's `DELAY_LEVEL_WHEN_NEXT_CONSUME` makes it."""


class RetryState(StrEnum):
    """The states of a nacked message."""

    NACKED = "N"
    WAITING = "W"
    RETRIED = "T"
    DEAD = "Q"
    REDRIVEN = "Z"
    DISCARDED = "X"


class ReceiptState(StrEnum):
    """The states of a message that is handed out by a receive."""

    OUT = "O"
    ACKNOWLEDGED = "A"
    CHANGED = "C"
    NACKED = "N"
    RETRIED = "T"
    DEAD = "Q"
    FORGOTTEN = "F"


class RetryDecision(NamedTuple):
    """`retry` at `due_ms`, or `dead_letter` now (`due_ms` None)."""

    action: Literal["retry", "dead_letter"]
    due_ms: int | None
