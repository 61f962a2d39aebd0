"""Slots of due times that are the wider the further off they are: 1 s within about a minute, 64 s within about an
hour, 4096 s within three days, 262144 s beyond. A slot is looked at one lead before it begins: what is due in it is put
into narrower slots then. So each is moved three times at most; and however much waits, there are few slots.
All times are milliseconds since the Unix epoch.
"""

from __future__ import annotations

from typing import NamedTuple

WIDTHS_MS = (1_000, 64_000, 4_096_000, 262_144_000)
"""The widths of slots, each 64 times the one before."""

FANOUT = 64


class Slot(NamedTuple):
    """The due times from `number * width_ms` on, before the next slot's begin."""

    width_ms: int
    number: int

    def fires_at_ms(self, lead_ms: int) -> int:
        """When what waits in it must be looked at."""
        return self.number * self.width_ms - lead_ms


def slot_of(due_ms: int, now_ms: int, lead_ms: int) -> Slot | None:
    """Where a message that is due then waits, seen from now; None: decide it.

    The slot always fires after `now_ms`.
    """
    distance_ms = due_ms - lead_ms - now_ms
    width_ms = next((width for width in WIDTHS_MS if distance_ms < FANOUT * width), WIDTHS_MS[-1])
    slot = Slot(width_ms, due_ms // width_ms)
    return slot if slot.fires_at_ms(lead_ms) > now_ms else None
