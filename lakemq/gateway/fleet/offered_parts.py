"""Parts of sinks that a primary is about to commit: followers in sync take them before the record that commits them is
written, so that nobody waits for parts when it is to be confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from itertools import islice

from lakemq.model.in_sync import Member

POLL_S = 0.01
TOLD_MAX = 32
"""So many parts a follower is told of at a time."""
WAIT_S, WAIT_BYTES_S = 1.0, 8 * 1024 * 1024
"""So long is waited at most, and as long as that many bytes a second take: whoever is slower lacks them when the record
comes, and says so then."""


class OfferedParts:
    """Those of one primary. Lives on the event loop."""

    def __init__(self, members: Callable[[], AbstractSet[Member]]) -> None:
        """`members`: who is in sync, or may be."""
        self._members = members
        self._offers: list[dict[int, dict[str, None]]] = []
        """Of each commit, what each replica has not taken yet."""
        self.asked: Callable[[], object] = lambda: None
        """Called when followers that wait have parts to take."""

    async def offer(self, tokens: Iterable[str], size: int) -> None:
        """Return when all in sync have taken these parts, of `size` bytes together, or the time is over."""
        replicas = self._replicas()
        if not replicas:
            return
        offer = {replica: dict.fromkeys(tokens) for replica in replicas}
        loop = asyncio.get_running_loop()
        until_s = loop.time() + WAIT_S + size / WAIT_BYTES_S
        self._offers.append(offer)
        try:
            self.asked()
            while loop.time() < until_s:
                if not any(offer[each] for each in self._replicas() & offer.keys()):
                    break
                await asyncio.sleep(POLL_S)
        finally:
            self._offers.remove(offer)

    def _replicas(self) -> set[int]:
        return {each.replica for each in self._members()}

    def to_take(self, replica: int) -> list[str]:
        """Parts that the replica has not taken yet, some of them."""
        lacking = (token for offer in self._offers for token in offer.get(replica, ()))
        return list(islice(lacking, TOLD_MAX))

    def taken(self, token: str, replica: int) -> None:
        """The replica has been sent all of the part."""
        for offer in self._offers:
            offer.get(replica, {}).pop(token, None)
