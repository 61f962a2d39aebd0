"""Tries with tokens that are none: so many from one address, and then it has to wait."""

from __future__ import annotations

from collections import OrderedDict

BURST = 60
PER_S = 1.0
ADDRESSES_MAX = 10_000


class Failures:
    """By address. A token that is valid is taken all the same: nobody is locked out by a neighbour."""

    def __init__(self, burst: int = BURST, per_s: float = PER_S, addresses_max: int = ADDRESSES_MAX) -> None:
        self._burst, self._per_s, self._addresses_max = burst, per_s, addresses_max
        self._left: OrderedDict[str | None, tuple[float, float]] = OrderedDict()

    def note(self, address: str | None, now_s: float) -> bool:
        """One more try failed; whether there were too many."""
        left, since_s = self._left.pop(address, (float(self._burst), now_s))
        left = min(left + max(now_s - since_s, 0) * self._per_s, self._burst)
        is_too_many = left < 1
        self._left[address] = (left if is_too_many else left - 1, now_s)
        if len(self._left) > self._addresses_max:
            self._left.popitem(last=False)
        return is_too_many
