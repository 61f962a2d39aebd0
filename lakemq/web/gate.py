"""A few places for work that takes long, given to clients in turn: however much one of them asks for, another one
waits for no more than one piece of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from lakemq.model.errors import Busy
from lakemq.model.network import network_of
from lakemq.web.asgi import Client
from lakemq.web.room import Room


class Gate:
    """Lives on the event loop. A client is known by its network."""

    def __init__(self, places: int, waiting_max: int, share: float) -> None:
        """`waiting_max`: so many may wait, and this `share` of them from one client."""
        self._free = places
        self._waiting: OrderedDict[Client, deque[asyncio.Future[None]]] = OrderedDict()
        self._kept = Room.shared(waiting_max, share)
        self.waiting = 0

    @asynccontextmanager
    async def place(self, client: Client, *, kept: bool = False) -> AsyncGenerator[None]:
        """Have a place, once it is this client's turn. Raises `Busy` when too much waits, unless room to wait in
        was `kept`."""
        if self._free:
            self._free -= 1
        elif kept:
            await self._wait(client)
        else:
            with self.keep(client):
                await self._wait(client)
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def keep(self, client: Client) -> Generator[None]:
        """Have room to wait in, whoever comes meanwhile. Raises `Busy` when too much waits, or may come to."""
        if not self._kept.has_room(client):
            raise Busy("too many requests wait to be worked on")
        with self._kept.place(client):
            yield

    async def _wait(self, client: Client) -> None:
        client = network_of(client)
        queue = self._waiting.get(client)
        if queue is None:
            queue = self._waiting[client] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()
            raise

    def _give(self) -> None:
        """Give a place that is free now to the next client that wants one."""
        while self._waiting:
            client, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            self.waiting -= 1
            if queue:
                self._waiting[client] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
