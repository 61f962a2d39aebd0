"""The outer timing wheel: where a message waits for its due time, and when it is looked at again.

A message is decided one *lead* before it is due. Until then it waits in a slot of time that is the
wider the further off it is: 1 s within about a minute, 64 s within about an hour, 4096 s within
three days, 262144 s beyond. A slot fires one lead before it begins: what is due in it is then put
into narrower slots, and what is due within the narrowest slot's width is decided.

So a message is decided at the first look at or after `due - lead`, and no more than a slot of 1 s
before that; each is moved three times at most; and however much waits, there are few slots.
All times are milliseconds since the Unix epoch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

WIDTHS_MS = (1_000, 64_000, 4_096_000, 262_144_000)
"""The widths of slots, each 64 times the one before."""

FANOUT = 64

_ROW_BYTES = 16


class Slot(NamedTuple):
    """The due times from `number * width_ms` on, before the next slot's begin."""

    width_ms: int
    number: int

    def fires_at_ms(self, lead_ms: int) -> int:
        """When what waits in it must be looked at."""
        return self.number * self.width_ms - lead_ms


class Waiting(NamedTuple):
    """A message that waits: the log position of its scheduled row, and when it is due."""

    cause: int
    due_ms: int


def slot_of(due_ms: int, now_ms: int, lead_ms: int) -> Slot | None:
    """Where a message that is due then waits, seen from now; None: decide it.

    The slot always fires after `now_ms`.
    """
    distance_ms = due_ms - lead_ms - now_ms
    width_ms = next((width for width in WIDTHS_MS if distance_ms < FANOUT * width), WIDTHS_MS[-1])
    slot = Slot(width_ms, due_ms // width_ms)
    return slot if slot.fires_at_ms(lead_ms) > now_ms else None


def sort_out(rows: Iterable[Waiting], now_ms: int, lead_ms: int) -> dict[Slot | None, list[Waiting]]:
    """The rows by `slot_of`; those under None are to be decided."""
    found: dict[Slot | None, list[Waiting]] = {}
    for row in rows:
        found.setdefault(slot_of(row.due_ms, now_ms, lead_ms), []).append(row)
    return found


def slots_firing_at(fire_ms: int, lead_ms: int) -> Iterator[Slot]:
    """Every slot that there may be whose `fires_at_ms` is that time, the widest first."""
    begin_ms = fire_ms + lead_ms
    for width_ms in reversed(WIDTHS_MS):
        if begin_ms % width_ms == 0:
            yield Slot(width_ms, begin_ms // width_ms)


def pack(rows: Iterable[Waiting]) -> bytes:
    """Rows as pairs of 64-bit integers of this machine, 16 bytes a row. Packs can be joined."""
    return array("q", (value for row in rows for value in row)).tobytes()


def unpack(blob: bytes) -> Iterator[Waiting]:
    """The rows of `pack`; raises `ValueError` when `blob` is not whole."""
    return map(Waiting, *unpack_columns(blob))


def unpack_columns(blob: bytes) -> tuple[array[int], array[int]]:
    """The same as columns: causes, and when they are due."""
    if len(blob) % _ROW_BYTES:
        raise ValueError(f"{len(blob)} bytes are no whole rows")
    values = array("q")
    values.frombytes(blob)
    return values[0::2], values[1::2]
