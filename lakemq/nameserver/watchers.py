"""Requests that are held until the routes that they ask for change.

Ten thousand may wait for one change: its answer is there once for all, who waits is woken some at a time, and what
changes within `PAUSE_S` of a wake, or longer where many were woken, is told together. A change after a quiet while is
told at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lakemq.model.errors import Busy
from lakemq.web.asgi import Client
from lakemq.web.gone import finish
from lakemq.web.room import Room

PAUSE_S = 0.1
PAUSE_S_A_WATCHER = 0.000_05
PAUSE_S_MAX = 0.5
"""A change is known to all in 2 s, also one that comes just after another."""
WOKEN_AT_ONCE = 200
"""In one turn of the loop: each of them has an answer to write, and heartbeats go on in between."""
WOKEN_WITHOUT_ROOM = 4
WITHOUT_ROOM_S = 0.01
"""While clients have too much to read already, fewer are woken: not none, as some of them may never read."""

Version = str
_Future = asyncio.Future[None]


class Watchers:
    """Those of one name server, whose places are in `room`. `version_of` is the current version of a topic's routes;
    `has_room`: whether there is room for answers that clients have yet to take."""

    def __init__(self, room: Room, version_of: Callable[[str | None], Version], has_room: Callable[[], bool]) -> None:
        self._room = room
        self._version_of = version_of
        self._has_room = has_room
        self._waiting: dict[str | None, dict[Version, set[_Future]]] = {}
        self._moved: set[str | None] = set()
        self._woken: deque[_Future] = deque()
        self._pause: asyncio.TimerHandle | None = None
        self.stopping = False

    def __len__(self) -> int:
        return self._room.taken

    async def wait(
        self, topic: str | None, version: Version, seconds: float, gone: asyncio.Future[Any], client: Client
    ) -> None:
        """Return when the topic's routes are of another version than this, which is the current one; when the time is
        over; when who waits is `gone`; or when the name server stops. Raises `Busy` when too many wait, or too many
        of the client's."""
        if self.stopping or gone.done():
            return
        if self._room.is_full:
            raise Busy(f"{self._room.taken} requests are waiting already (nameserver.waiters_max)")
        if self._room.is_full_for(client):
            raise Busy("this client has as many waiting requests as it may (nameserver.client_share)")
        loop = asyncio.get_running_loop()
        future: _Future = loop.create_future()
        wake = partial(finish, future)
        timer = loop.call_later(seconds, wake)
        gone.add_done_callback(wake)
        self._waiting.setdefault(topic, {}).setdefault(version, set()).add(future)
        try:
            with self._room.place(client):
                await future
        finally:
            timer.cancel()
            gone.remove_done_callback(wake)
            self._remove(topic, version, future)

    def _remove(self, topic: str | None, version: Version, future: _Future) -> None:
        by_version = self._waiting.get(topic, {})
        futures = by_version.get(version, set())
        futures.discard(future)
        if not futures and by_version.pop(version, None) is not None and not by_version:
            del self._waiting[topic]

    def moved(self, topics: Iterable[str | None]) -> None:
        """The routes of these may have changed: tell those who wait, at once or at the end of the pause."""
        self._moved.update(topic for topic in topics if topic in self._waiting)
        if self._moved and self._pause is None and not self.stopping:
            self._tell()

    def _tell(self) -> None:
        moved, self._moved = self._moved, set()
        before = len(self._woken)
        for topic in moved:
            self._take_out(topic)
        pause_s = min(max(PAUSE_S, (len(self._woken) - before) * PAUSE_S_A_WATCHER), PAUSE_S_MAX)
        self._pause = asyncio.get_running_loop().call_later(pause_s, self.end_pause)
        if not before:
            self._wake()

    def _take_out(self, topic: str | None) -> None:
        """Those who wait for the topic and are to be woken. Some have come since the change, and know of it; and what
        has changed may be again what it was."""
        by_version = self._waiting.get(topic)
        if by_version is None:
            return
        for version in by_version.keys() - {self._version_of(topic)}:
            self._woken.extend(by_version.pop(version))
        if not by_version:
            del self._waiting[topic]

    def end_pause(self) -> None:
        """Tell what has changed during the pause, as it is over."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._moved and not self.stopping:
            self._tell()

    def _wake(self) -> None:
        """Wake some, and the others after everything else."""
        has_room = self._has_room()
        for _ in range(min(WOKEN_AT_ONCE if has_room else WOKEN_WITHOUT_ROOM, len(self._woken))):
            finish(self._woken.popleft())
        if self._woken:
            asyncio.get_running_loop().call_later(0 if has_room else WITHOUT_ROOM_S, self._wake)

    def stop(self) -> None:
        """Answer all who wait, and let nobody wait from now on."""
        self.stopping = True
        if self._pause is not None:
            self._pause.cancel()
        for by_version in self._waiting.values():
            for futures in by_version.values():
                self._woken.extend(futures)
        for future in self._woken:
            finish(future)
