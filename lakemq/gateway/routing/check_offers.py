"""Which checks of a producer group are offered to its clients, and which somebody has until he answers.

What one poll costs is what it takes, and what has run out since the one before, however many checks are open.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from sys import intern
from typing import NamedTuple

from lakemq.storage.state.open_halves import OpenHalf

LOOKED_AT = 2
"""So many are looked at together."""
Find = Callable[[int], OpenHalf | None]
"""The open transaction of an origin."""
May = Callable[[str], bool]
"""Whether who asks may produce to the topic."""


class _Offer(NamedTuple):
    """Which check of a transaction was handed out, and until when it is nobody else's. `topic`: the message's, once
    somebody has read it; empty before."""

    cause: int = -1
    until_ms: int = 0
    topic: str = ""


_NEW = _Offer()


class CheckOffers:
    """Those of one group, by the origins of their transactions. Of a transaction that was resolved it is noticed when
    its check would be taken, or when others come."""

    def __init__(self) -> None:
        self._offers: dict[int, _Offer] = {}
        self._ready: dict[str, dict[int, None]] = {}
        """What nobody has, by topic, in the order in which it came."""
        self._out: list[tuple[int, int]] = []
        """A heap of (until, origin): what somebody has, and of what was offered again since."""

    def __bool__(self) -> bool:
        return bool(self._offers)

    def add(self, origin: int) -> None:
        """There is a new check of it."""
        self._offer(origin, self._offers.get(origin, _NEW).topic)

    def tidy(self, find: Find) -> None:
        """Look at a few: where nobody asks, what was resolved doesn't pile up."""
        for other in list(islice(self._offers, LOOKED_AT)):
            half, offer = find(other), self._offers.pop(other)
            if half is not None and half.resolution is None:
                self._offers[other] = offer
            elif (ready := self._ready.get(offer.topic)) is not None:
                ready.pop(other, None)
                if not ready:
                    del self._ready[offer.topic]

    def take(self, find: Find, may: May, now_ms: int, until_ms: int, count_max: int) -> list[OpenHalf]:
        """Up to so many that may be handed out now, as far as their topics are known: nobody else's until then."""
        self._take_back(now_ms)
        taken: list[OpenHalf] = []
        for topic in list(self._ready):
            if topic and not may(topic):
                continue
            ready = self._ready[topic]
            while ready and len(taken) < count_max:
                origin = next(iter(ready))
                del ready[origin]
                half = find(origin)
                if half is None or half.resolution is not None:
                    del self._offers[origin]
                    continue
                self._offers[origin] = _Offer(half.cause, until_ms, topic)
                heapq.heappush(self._out, (until_ms, origin))
                taken.append(half)
            if not ready:
                del self._ready[topic]
        return taken

    def _take_back(self, now_ms: int) -> None:
        """What nobody has answered in time is offered again."""
        while self._out and self._out[0][0] <= now_ms:
            until_ms, origin = heapq.heappop(self._out)
            offer = self._offers.get(origin, _NEW)
            if offer.until_ms == until_ms:
                self._offer(origin, offer.topic)

    def next_ms(self) -> int | None:
        """When the next one may be offered again; None: nobody has one."""
        return self._out[0][0] if self._out else None

    def learn(self, half: OpenHalf, topic: str, is_kept: bool) -> None:
        """That check, which was taken just now, is of this topic. Not `is_kept`: it is offered again."""
        offer = self._offers.get(half.origin)
        if offer is None or offer.cause != half.cause:
            return
        if is_kept:
            self._offers[half.origin] = offer._replace(topic=intern(topic))
        else:
            self._offer(half.origin, intern(topic))

    def withdraw(self, half: OpenHalf) -> None:
        """That check, which was taken just now, is for nobody."""
        offer = self._offers.get(half.origin)
        if offer is not None and offer.cause == half.cause:
            del self._offers[half.origin]

    def _offer(self, origin: int, topic: str) -> None:
        self._offers[origin] = _Offer(topic=topic)
        self._ready.setdefault(topic, {})[origin] = None
