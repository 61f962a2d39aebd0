"""Telling those who wait that a group has moved."""

from __future__ import annotations

import asyncio

from lakemq.web.gone import finish

PAUSE_S_A_WAITER = 0.005
PAUSE_S_MAX = 2.0


class Notices:
    """Who waits for which group. When 1,000 members come one after the other, telling 1,000 of each
    would be a million answers, and each who is told gives queues back and takes others: after a notice to
    many there is a pause, as long as all of that takes about, and what moves meanwhile is told together
    at its end. A group that was quiet is told at once."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._moved: set[str] = set()

    def moved(self, group: str) -> None:
        """The group has moved: tell those who wait, at once or at the end of the pause."""
        if group in self._pauses:
            self._moved.add(group)
        elif group in self._waiters:
            self._tell(group)

    def is_due(self, group: str) -> bool:
        """Whether a notice will come by itself soon: who comes now may wait for it with the others."""
        return group in self._moved

    def _tell(self, group: str) -> None:
        waiters = self._waiters.pop(group, set())
        for waiter in waiters:
            finish(waiter)
        pause_s = min(PAUSE_S_A_WAITER * len(waiters), PAUSE_S_MAX)
        self._pauses[group] = asyncio.get_running_loop().call_later(pause_s, self._end_pause, group)

    def _end_pause(self, group: str) -> None:
        del self._pauses[group]
        if group in self._moved:
            self._moved.discard(group)
            self._tell(group)

    def add(self, group: str, waiter: asyncio.Future[None]) -> None:
        """`waiter` is done at the group's next notice."""
        self._waiters.setdefault(group, set()).add(waiter)

    def discard(self, group: str, waiter: asyncio.Future[None]) -> None:
        """Whoever waited with it has gone."""
        waiters = self._waiters.get(group)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[group]

    def close(self) -> None:
        """Tell nobody any more."""
        for pause in self._pauses.values():
            pause.cancel()
