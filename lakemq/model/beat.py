"""A sign of life of who leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.model.in_sync import Record


class Beat(NamedTuple):
    """The leader of that epoch lives: with each it counts one further, so a beat that stays the same says that it
    doesn't. `address`: where others ask it."""

    epoch: int
    replica: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  nobody asks how often it has a value
    address: str

    def is_of(self, record: Record | None) -> bool:
        """Whether it is the leader's that the record names, in its epoch."""
        return record is not None and (self.replica, self.epoch) == (record.leader, record.epoch)


def beat_of(fields: Mapping[str, Any]) -> Beat:
    """The beat whose fields JSON gave back. Raises `ValueError`."""
    try:
        numbers = int(fields["epoch"]), int(fields["replica"]), int(fields["count"])
        return Beat(*numbers, str(fields["address"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is no leader's sign of life: {error!r}") from None
