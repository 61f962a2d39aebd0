"""Requests that are held until something happens, the time is over or the broker stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from lakemq.gateway.work.deadlines import Deadlines
from lakemq.model.errors import Busy
from lakemq.web.asgi import Client
from lakemq.web.gone import finish
from lakemq.web.room import Room

Wait = Callable[[asyncio.Future[None], float, asyncio.Future[None], Client], Awaitable[bool]]
"""`Waiters.wait_within`."""


class Watched(Protocol):
    """What wakes those who wait for it: a queue, when a message comes."""

    waiters: set[asyncio.Future[None]]


class Waiters:
    """Those of one broker: at most so many, and of them that share of one client's."""

    def __init__(self, waiters_max: int, share: float) -> None:
        self._room = Room.shared(waiters_max, share)
        self._waiting: set[asyncio.Future[None]] = set()
        self._deadlines = Deadlines()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(
        self,
        future: asyncio.Future[None],
        seconds: float,
        gone: asyncio.Future[None] | None = None,
        client: Client = None,
        bounded: bool = True,
    ) -> None:
        """Return when the future is done, which it is too when who waits is `gone`; when the time is over; or when the
        broker stops. Raises `Busy` when too many wait, or too many of the client's, unless not `bounded`: for what has
        another bound, and has changed something already."""
        if self.stopping:
            return
        if bounded and self._room.is_full:
            raise Busy(f"{self._room.taken} requests are waiting already (gateway.waiters_max)")
        if bounded and self._room.is_full_for(client):
            raise Busy("this client has as many waiting requests as it may (gateway.client_share)")
        until = self._deadlines.add(future, seconds)
        wake = partial(finish, future)
        if gone is not None:
            gone.add_done_callback(wake)
        self._waiting.add(future)
        try:
            with self._room.place(client):
                await future
        finally:
            until.discard(future)
            if gone is not None:
                gone.remove_done_callback(wake)
            self._waiting.discard(future)

    async def wait_for_any(self, what: Iterable[Watched], seconds: float) -> None:
        """`wait` for any of these."""
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watched = list(what)
        for each in watched:
            each.waiters.add(arrival)
        try:
            await self.wait(arrival, seconds)
        finally:
            for each in watched:
                each.waiters.discard(arrival)

    async def wait_within(
        self, future: asyncio.Future[None], seconds: float, gone: asyncio.Future[None], client: Client
    ) -> bool:
        """`wait`; whether waiting has still a sense."""
        await self.wait(future, seconds, gone, client)
        return not self.stopping

    def go_on(self) -> None:
        """It stops not, after all."""
        self.stopping = False

    def stop(self) -> None:
        """Answer all who wait, and let nobody wait from now on."""
        self.stopping = True
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            finish(future)
