"""A few places for work that takes long, given to clients in turn: however much one of them asks for, another one
waits for no more than one piece of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lakemq.model.errors import Busy

Client = str | None
"""A client's address; None: nobody's in particular."""


class Gate:
    """Lives on the event loop."""

    def __init__(self, places: int, waiting_max: int, share: float) -> None:
        """`waiting_max`: so many may wait, and this `share` of them from one client."""
        self._free = places
        self._waiting_max = waiting_max
        self._each_max = max(int(waiting_max * share), 1)
        self._waiting: OrderedDict[Client, deque[asyncio.Future[None]]] = OrderedDict()
        self.waiting = 0

    @asynccontextmanager
    async def place(self, client: Client) -> AsyncGenerator[None]:
        """Have a place, once it is this client's turn. Raises `Busy` when too much waits."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._give()

    async def _wait(self, client: Client) -> None:
        queue = self._waiting.get(client)
        if self.waiting >= self._waiting_max or (queue is not None and len(queue) >= self._each_max):
            raise Busy("too many requests wait to be worked on")
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
