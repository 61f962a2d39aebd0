"""What becomes of a half message. The states are lettered in docs/routing.md."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Resolution = Literal["commit", "rollback"]
Action = Literal["commit", "rollback", "check", "give_up"]
RESOLUTIONS = ("commit", "rollback", "unknown")


class TransactionState(StrEnum):
    """The states of a transaction."""

    HALF = "H"
    CHECKED = "K"
    COMMITTED = "C"
    ROLLED_BACK = "B"
    GIVEN_UP = "X"


def decide(check_times: int, check_max: int, resolution: Resolution | None) -> Action:
    """What a half leads to that was checked `check_times` times: its operation's `resolution`, or,
    when none came in time (None), a check; after `check_max` of these it is given up."""
    if resolution is not None:
        return resolution
    return "check" if check_times < check_max else "give_up"


def wait_ms(check_times: int, timeout_ms: int, check_interval_ms: int) -> int:
    """How long a half waits for an operation: the first time, and after each check."""
    return timeout_ms if check_times == 0 else check_interval_ms
