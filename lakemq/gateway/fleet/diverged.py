"""Logs that another one goes on from, or doesn't."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.model.agreement import Epoch, goes_on, may_share
from lakemq.model.errors import EpochDiverged


def check_goes_on(epochs: Sequence[Epoch], epoch: int, end: int) -> None:
    """Raise `EpochDiverged` unless the log that ends there in that epoch is the beginning of the one with these."""
    if not goes_on(epochs, epoch, end):
        shared = may_share(epochs, epoch, end)
        raise EpochDiverged(f"this log has no position {end} at the end of epoch {epoch}", *shared)
