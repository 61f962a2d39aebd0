"""Whose causes are: by group, positions of which some are pending still."""

from __future__ import annotations

from pyroaring import BitMap64

from lakemq.storage.state.bitmaps import pack, unpack
from lakemq.storage.state.steps import Steps, copy_each

STEP = 1_000
"""So many groups are copied in one step."""


class ByGroup:
    """Positions by group. What is done is forgotten by `tidy` alone, so who counts says which are pending."""

    def __init__(self) -> None:
        self._of: dict[str, BitMap64] = {}

    def add(self, group: str, first: int, end: int) -> None:
        """The positions `first ≤ p < end` are the group's."""
        found = self._of.get(group)
        if found is None:
            found = self._of[group] = BitMap64()
        found.add_range(first, end)

    def count(self, group: str, pending: BitMap64) -> int:
        """How many of the pending ones are the group's."""
        found = self._of.get(group)
        return 0 if found is None else found.intersection_cardinality(pending)

    def of(self, group: str) -> BitMap64:
        """All that are the group's, as far as they are known still."""
        found = self._of.get(group)
        return BitMap64() if found is None else found

    def groups(self) -> list[str]:
        """Those that have had any."""
        return list(self._of)

    def forget(self, group: str) -> None:
        """The group is no more, and so are its own."""
        self._of.pop(group, None)

    def tidy(self, pending: BitMap64) -> None:
        """Forget all that isn't pending."""
        for group, positions in list(self._of.items()):
            positions &= pending
            if positions:
                self._of[group] = positions
            else:
                del self._of[group]

    def copy_in_steps(self) -> Steps[ByGroup]:
        """All of it as it is now; nothing is added between the steps."""
        copied = ByGroup()
        copied._of = yield from copy_each(self._of, BitMap64.copy, STEP)
        return copied

    def dump(self, pending: BitMap64) -> dict[str, str]:
        """Those that are pending, as JSON values: the same whenever it was tidied."""
        left = {group: positions & pending for group, positions in self._of.items()}
        return {group: pack(positions) for group, positions in left.items() if positions}

    def restore(self, dumped: dict[str, str]) -> None:
        """Become what `dump` said."""
        self._of = {group: unpack(positions) for group, positions in dumped.items()}
