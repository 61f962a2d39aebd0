"""Heartbeats that say something new: read one at a time, clients in turn, in half of the loop's time at most.

One with many topics takes long to read, and nobody has to send the same twice. So whoever floods the name server with
ever other registrations waits for himself: other brokers wait for one of his each, and heartbeats that say nothing new,
and routes, have the other half of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lakemq.model.errors import Busy
from lakemq.settings import NameServer
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate
from lakemq.web.room import Room

WAITING_MAX = 2_000
WORK_S = 0.005
"""So much is done without a rest: most have little to say."""


class Pace:
    """How long to rest after work."""

    def __init__(self) -> None:
        self._worked_s = 0.0

    def rest_s(self, worked_s: float) -> float:
        """After so much more of it."""
        self._worked_s += worked_s
        if self._worked_s < WORK_S:
            return 0.0
        rest_s, self._worked_s = self._worked_s, 0.0
        return rest_s


class Intake:
    """Of one name server."""

    def __init__(self, limits: NameServer) -> None:
        self._gate = Gate(1, WAITING_MAX, limits.client_share)
        bytes_max = max(limits.request_bytes_in_flight_max // 2, limits.request_bytes_max)
        self._room = Room.shared(bytes_max, limits.client_share)
        self._pace = Pace()

    @asynccontextmanager
    async def turn(self, client: Client, size: int) -> AsyncGenerator[None]:
        """Have this client's turn for a body of that size. Raises `Busy` when too much waits."""
        room = self._room
        held = room.of(client)
        if room.taken + size > room.most or (held and held + size > room.each_most):
            raise Busy("the registrations that wait to be read have too many bytes (nameserver.client_share)")
        with room.place(client, size):
            async with self._gate.place(client):
                begun_s = asyncio.get_running_loop().time()
                try:
                    yield
                finally:
                    await self._rest(begun_s)

    async def _rest(self, begun_s: float) -> None:
        rest_s = self._pace.rest_s(asyncio.get_running_loop().time() - begun_s)
        if rest_s:
            await asyncio.sleep(rest_s)
