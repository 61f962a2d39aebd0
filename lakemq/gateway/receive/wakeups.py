"""Waiting for messages: what comes wakes one of those who want the same, and that one hands it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from lakemq.model.errors import LakemqError

Future = asyncio.Future[None]


class Watched(Protocol):
    """Where a future is left."""

    def discard(self, future: Future, /) -> None:
        """Take it away, if it is there."""
        ...


Watch = Callable[[Future], Sequence[Watched]]
"""Leaves a future with all that may bring something, or end the wait, and returns where."""


class Waiter:
    """One who waits. `woken`: something may have come, and nobody else was told."""

    __slots__ = ("future", "woken")

    def __init__(self) -> None:
        self.future: Future = asyncio.get_running_loop().create_future()
        self.woken = False


class Wakeups:
    """Those who wait for the same, in the order in which they came. A thousand of them cost one look
    each time that something comes, not a thousand."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._waiters: dict[Waiter, None] = {}
        self._arrival: Future | None = None
        self._watched: Sequence[Watched] = ()

    def __len__(self) -> int:
        return len(self._waiters)

    def join(self) -> Waiter:
        """Wait from now on: whatever comes after this is noticed."""
        waiter = Waiter()
        self._waiters[waiter] = None
        self._listen()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._stop_listening()

    def wake_next(self) -> None:
        """Wake the first who waits: there may be something."""
        while self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            if not waiter.future.done():
                waiter.woken = True
                waiter.future.set_result(None)
                break
        if self._waiters:
            self._listen()
        else:
            self._stop_listening()

    def _listen(self) -> None:
        if self._arrival is not None:
            return
        arrival: Future = asyncio.get_running_loop().create_future()
        try:
            self._watched = self._watch(arrival)
        except LakemqError:  # the topic is gone: each has to be told
            for waiter in self._waiters:
                waiter.woken = True
                if not waiter.future.done():
                    waiter.future.set_result(None)
            self._waiters.clear()
            return
        self._arrival = arrival
        arrival.add_done_callback(self._arrived)

    def _arrived(self, arrival: Future) -> None:
        if arrival is self._arrival:
            self._stop_listening()
            self.wake_next()

    def _stop_listening(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            for waiters in self._watched:
                waiters.discard(arrival)
            self._watched = ()
