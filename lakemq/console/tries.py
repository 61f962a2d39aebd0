"""How often somebody may try to sign in: a token isn't to be found by trying."""

from __future__ import annotations

from collections import OrderedDict

from lakemq.model.network import network_of

BURST = 10
SECONDS_EACH = 6.0
"""So many tries that fail at once, and then one each so many seconds."""
ADDRESSES_MAX = 4_096


class Tries:
    """Those that failed, by address; of IPv6 by /64, as one machine may have all of that. Times are monotonic."""

    def __init__(self) -> None:
        self._full_s: OrderedDict[str | None, float] = OrderedDict()
        """By when all that an address has tried is forgotten."""

    def wait_s(self, address: str, now_s: float) -> float:
        """So long until it may try again; 0: now."""
        full_s = self._full_s.get(network_of(address), 0.0)
        return max(full_s - now_s - (BURST - 1) * SECONDS_EACH, 0.0)

    def failed(self, address: str, now_s: float) -> None:
        """It tried, and that was no token."""
        place = network_of(address)
        self._full_s[place] = max(self._full_s.pop(place, 0.0), now_s) + SECONDS_EACH
        while len(self._full_s) > ADDRESSES_MAX:
            self._full_s.popitem(last=False)
