"""Waiting for messages: what comes wakes one of those who want the same, and that one hands it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lakemq.model.errors import LakemqError

Future = asyncio.Future[None]
Watch = Callable[[Future], list[set[Future]]]
"""Leaves a future with all that may bring something, and returns where."""


class Waiter:
    """One who waits. `rung`: something may have come, and nobody else was told."""

    __slots__ = ("future", "rung")

    def __init__(self) -> None:
        self.future: Future = asyncio.get_running_loop().create_future()
        self.rung = False


class Bell:
    """Those who wait for the same, in the order in which they came. A thousand of them cost one look
    each time that something comes, not a thousand."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._waiters: dict[Waiter, None] = {}
        self._ear: Future | None = None
        self._watched: list[set[Future]] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def join(self) -> Waiter:
        """Wait from now on: whoever comes after this is heard."""
        waiter = Waiter()
        self._waiters[waiter] = None
        self._listen()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._stop_listening()

    def ring(self) -> None:
        """Wake the first who waits: there may be something."""
        while self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            if not waiter.future.done():
                waiter.rung = True
                waiter.future.set_result(None)
                break
        if self._waiters:
            self._listen()
        else:
            self._stop_listening()

    def _listen(self) -> None:
        if self._ear is not None:
            return
        ear: Future = asyncio.get_running_loop().create_future()
        try:
            self._watched = self._watch(ear)
        except LakemqError:  # the topic is gone: each has to be told
            for waiter in self._waiters:
                waiter.rung = True
                if not waiter.future.done():
                    waiter.future.set_result(None)
            self._waiters.clear()
            return
        self._ear = ear
        ear.add_done_callback(self._heard)

    def _heard(self, ear: Future) -> None:
        if ear is self._ear:
            self._stop_listening()
            self.ring()

    def _stop_listening(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            for waiters in self._watched:
                waiters.discard(ear)
            self._watched = []
