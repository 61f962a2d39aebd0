"""The states of a half message, lettered as in docs/routing.md, and how long it waits. `lakemq.model.decide` says
what happens to it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Resolution = Literal["commit", "rollback"]
RESOLUTIONS = ("commit", "rollback", "unknown")


class TransactionState(StrEnum):
    """The states of a transaction."""

    HALF = "H"
    CHECKED = "K"
    COMMITTED = "C"
    ROLLED_BACK = "B"
    GIVEN_UP = "X"


def wait_ms(check_times: int, timeout_ms: int, check_interval_ms: int) -> int:
    """How long a half waits for an operation: the first time, and after each check."""
    return timeout_ms if check_times == 0 else check_interval_ms
