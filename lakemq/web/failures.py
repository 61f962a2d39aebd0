"""Tries with tokens that are none: so many from one address, and then it has to wait."""

from __future__ import annotations

from lakemq.model.network import network_of
from lakemq.model.token_bucket import TokenBuckets

BURST = 60
PER_S = 1.0
ADDRESSES_MAX = 10_000


class Failures:
    """By address, of IPv6 by network. A token that is valid is taken all the same: nobody is locked out by a
    neighbour."""

    def __init__(self, burst: int = BURST, per_s: float = PER_S, addresses_max: int = ADDRESSES_MAX) -> None:
        self._tries = TokenBuckets(burst, per_s, addresses_max)

    def note(self, address: str | None, now_s: float) -> bool:
        """One more try failed; whether there were too many."""
        return not self._tries.take(network_of(address), now_s)
