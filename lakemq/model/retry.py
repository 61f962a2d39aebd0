"""What becomes of a message that a consumer could not process. The states are lettered in
docs/routing.md."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from lakemq.model.delay import delay_of_level

FIRST_LEVEL = 3
"""The level of the first retry, as RocketMQ's `DELAY_LEVEL_WHEN_NEXT_CONSUME` makes it."""


class RetryState(StrEnum):
    """The states of a nacked message."""

    NACKED = "N"
    WAITING = "W"
    RETRIED = "T"
    DEAD = "Q"
    REDRIVEN = "Z"


class ReceiptState(StrEnum):
    """The states of a message that is handed out by a receive."""

    OUT = "O"
    ACKNOWLEDGED = "A"
    CHANGED = "C"
    RETRIED = "T"
    DEAD = "Q"
    FORGOTTEN = "F"


class RetryDecision(NamedTuple):
    """`retry` at `due_ms`, or `dead_letter` now (`due_ms` None)."""

    action: Literal["retry", "dead_letter"]
    due_ms: int | None


def decide(
    reconsume_times: int, delay_level: int, max_reconsume_times: int, levels_ms: Sequence[int], nacked_ms: int
) -> RetryDecision:
    """What a nack leads to.

    `reconsume_times`: how often the message was retried before. `delay_level`: < 0 straight to the
    dead letters, > 0 that level, 0 the broker's choice, `FIRST_LEVEL + reconsume_times`. `nacked_ms`:
    when the nack was stored, from which the delay counts.
    """
    if delay_level < 0 or reconsume_times >= max_reconsume_times:
        return RetryDecision("dead_letter", None)
    level = delay_level or FIRST_LEVEL + reconsume_times
    return RetryDecision("retry", nacked_ms + delay_of_level(level, levels_ms))


def decide_run_out(reconsume_times: int, max_reconsume_times: int) -> Literal["retry", "dead_letter"]:
    """What becomes, at once, of a message that was handed out and not acknowledged in time, after it
    was retried `reconsume_times` before."""
    return "dead_letter" if reconsume_times >= max_reconsume_times else "retry"
