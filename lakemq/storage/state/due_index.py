"""Which scheduled messages are due when: enough to find what is overdue, however much waits.

Positions stand in slots of time that are the wider the further off they are (`lakemq.model.due_slot`), a bitmap
each: 2 bytes a message at worst, and far fewer where neighbours in the log are due together. What a wide slot holds
is sorted into narrower ones, once its time comes, by the exact times (`due_times`); and what one of a second holds
into fine ones, where it is still there by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any

from pyroaring import BitMap64

from lakemq.model.due_slot import FANOUT, WIDTHS_MS, Slot, slot_of
from lakemq.storage.state.bitmaps import pack, unpack

SECOND_MS = WIDTHS_MS[0]
FINE_MS = 10
"""So exactly it is known what is overdue."""
OVER_MAX = 1_000
SLACK = 10_000
"""So many that wait no more may be left in it, beside as many as wait."""


def _slot(due_ms: int, now_ms: int) -> Slot:
    return slot_of(due_ms, now_ms, 0) or Slot(SECOND_MS, due_ms // SECOND_MS)


class DueIndex:
    """Positions by due time. It may hold some that wait no more: who takes from it says what waits."""

    def __init__(self) -> None:
        self._slots: dict[Slot, BitMap64] = {}
        # Slots whose sets a copy has too: whoever changes one makes a set of his own first.
        self._shared: set[Slot] = set()

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    @property
    def slots(self) -> int:
        """How many slots there are: some hundreds, and of what is overdue at most `OVER_MAX` after a `merge`."""
        return len(self._slots)

    def add(self, first: int, dues_ms: Sequence[int], now_ms: int) -> None:
        """The positions from `first` on are due then, seen from `now_ms`."""
        by_second: dict[int, BitMap64] = {}  # what comes together is mostly due together
        for position, due_ms in enumerate(dues_ms, first):
            second = due_ms // SECOND_MS
            positions = by_second.get(second)
            if positions is None:
                # A second lies in one slot: whatever its milliseconds, as all widths are whole seconds.
                positions = by_second[second] = self._own(_slot(second * SECOND_MS, now_ms))
            positions.add(position)

    def _own(self, slot: Slot) -> BitMap64:
        """The slot's set, made when missing, to be changed."""
        positions = self._slots.get(slot)
        if positions is None:
            positions = self._slots[slot] = BitMap64()
        elif slot in self._shared:
            positions = self._slots[slot] = positions.copy()
        self._shared.discard(slot)
        return positions

    def over(self, at_ms: int) -> list[Slot]:
        """The slots that are over at that time, earliest first: all in them is due."""
        found = [slot for slot in self._slots if _end(slot) <= at_ms]
        return sorted(found, key=_begin)

    def begun(self, at_ms: int) -> list[Slot]:
        """The wide slots that have begun at that time, the earliest first: some in them may be due."""
        found = [slot for slot in self._slots if slot.width_ms > SECOND_MS and _begin(slot) <= at_ms]
        return sorted(found, key=_begin)

    def opening(self, at_ms: int, until_ms: int) -> list[Slot]:
        """The slots of a second that have begun at `until_ms` and are not over at `at_ms`, the earliest first: of these
        it isn't known yet what is due when."""
        found = [slot for slot in self._slots if slot.width_ms == SECOND_MS and _begin(slot) <= until_ms]
        return sorted((slot for slot in found if _end(slot) > at_ms), key=_begin)

    def next_ms(self, at_ms: int, ahead_ms: int) -> int | None:
        """The time after this one at which a fine slot is over, or one of a second begins within `ahead_ms`; None:
        there is none."""
        ends = (_end(slot) for slot in self._slots if slot.width_ms == FINE_MS)
        begins = (_begin(slot) - ahead_ms for slot in self._slots if slot.width_ms == SECOND_MS)
        return min((time_ms for time_ms in chain(ends, begins) if time_ms > at_ms), default=None)

    def some(self, slot: Slot, waiting: BitMap64, done: BitMap64, count_max: int) -> list[int]:
        """Up to so many of the slot's positions that wait and aren't done. They stay where they are."""
        positions = self._left(slot, waiting, done)
        return list(islice(positions, count_max))

    def count(self, at_ms: int, waiting: BitMap64, done: BitMap64) -> int:
        """How many are due at that time, as far as slots are over."""
        return sum(len(self._left(slot, waiting, done)) for slot in self.over(at_ms))

    def _left(self, slot: Slot, waiting: BitMap64, done: BitMap64) -> BitMap64:
        """What is left in the slot, which is forgotten when that is nothing."""
        if slot not in self._slots:
            return BitMap64()
        positions = self._own(slot)
        positions &= waiting
        positions -= done
        if not positions:
            self._slots.pop(slot, None)
        return positions

    def sort_out(self, slot: Slot, dues_ms: Iterable[tuple[int, int]]) -> None:
        """Move these of a wide slot's `(position, due)` to the narrower slots that they are in."""
        moved = BitMap64()
        for position, due_ms in dues_ms:
            moved.add(position)
            # Seen from where the slot begins, what is in it always falls into a narrower one.
            self.add(position, (due_ms,), _begin(slot))
        self._drop(slot, moved)

    def sort_finely(self, slot: Slot, dues_ms: Iterable[tuple[int, int]]) -> None:
        """Move these of the `(position, due)` of a slot of a second to the fine slots that they are in. What was put
        off until that second is due with its begin."""
        moved = BitMap64()
        for position, due_ms in dues_ms:
            moved.add(position)
            self._own(Slot(FINE_MS, max(due_ms, _begin(slot)) // FINE_MS)).add(position)
        self._drop(slot, moved)

    def put_off(self, slot: Slot, positions: Iterable[int], until_ms: int) -> None:
        """Look at these of the slot again at that time, and not before."""
        chosen = BitMap64(positions)
        later = Slot(SECOND_MS, until_ms // SECOND_MS)
        self._drop(slot, chosen)
        self._own(later).update(chosen)

    def _drop(self, slot: Slot, positions: BitMap64) -> None:
        if slot in self._slots:
            held = self._own(slot)
            held -= positions
            if not held:
                del self._slots[slot]

    def merge(self, at_ms: int) -> None:
        """Make one slot of those that are over at that time, once they are many: what nobody decides
        would else take a slot a second."""
        over = self.over(at_ms)
        if len(over) > OVER_MAX:
            merged = BitMap64.union(*(self._slots.pop(slot) for slot in over))
            self._own(Slot(SECOND_MS, at_ms // SECOND_MS - 1)).update(merged)

    def tidy(self, waiting: BitMap64) -> None:
        """Forget what waits no more, once that is much."""
        if len(self) > 2 * len(waiting) + SLACK:
            self._keep(waiting)

    def _keep(self, waiting: BitMap64) -> None:
        for slot in list(self._slots):
            self._left(slot, waiting, BitMap64())

    def copy(self) -> DueIndex:
        """The index as it is now, to be dumped; no position is copied before its slot is changed."""
        copied = DueIndex()
        copied._slots = self._slots.copy()
        self._shared = set(self._slots)
        return copied

    def dump(self, waiting: BitMap64) -> list[list[Any]]:
        """What waits, as JSON values."""
        dumped: list[list[Any]] = []
        for slot, positions in self._slots.items():
            left = positions & waiting
            if left:
                left.run_optimize()
                dumped.append([*slot, pack(left)])
        return dumped

    def restore(self, dumped: list[list[Any]]) -> None:
        """Become what `dump` said."""
        self._slots = {Slot(width_ms, number): unpack(text) for width_ms, number, text in dumped}

    def begins(self) -> Iterator[tuple[int, BitMap64]]:
        """Of each slot when it begins, in ms, and the positions in it."""
        return ((_begin(slot), positions) for slot, positions in self._slots.items())

    def __iter__(self) -> Iterator[tuple[Slot, BitMap64]]:
        return iter(self._slots.items())


def _begin(slot: Slot) -> int:
    return slot.number * slot.width_ms


def _end(slot: Slot) -> int:
    return (slot.number + 1) * slot.width_ms


assert SECOND_MS % FINE_MS == 0
assert all(wide == FANOUT * narrow for narrow, wide in pairwise(WIDTHS_MS))
