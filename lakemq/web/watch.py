"""What connections may hold, and for how long: looked at for all of them together, now and then.

A client that is slow, stalled or silent costs memory, a descriptor and a place. Its connection is closed when it
takes too long, and earlier when what such clients hold together is too much: the slowest goes first, so that
they never take the room of those who are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Protocol

from lakemq.settings import Listener
from lakemq.web.asgi import Client
from lakemq.web.room import Holders, Room

STEP = 500
"""Connections that are looked at in one turn of the loop."""
SMALL_BYTES = 64 * 1024
"""A body that has brought no more finds room when larger ones don't any more."""
STALE_S = 1.0
"""A body that hasn't gone on for so long gives way to others."""


class Phase(IntEnum):
    """What a connection is at: between requests, within a head, within a body, or with a whole request that is
    being answered."""

    IDLE = 0
    HEAD = 1
    BODY = 2
    SERVED = 3


class Watched(Protocol):
    """A connection, as far as it is watched. The fields `seen_…` are the watch's own."""

    seen: tuple[int, Phase]
    seen_s: float
    seen_bytes: int
    unsent_s: float
    unsent_bytes: int

    @property
    def client_address(self) -> Client:
        """Whose it is."""
        ...

    @property
    def at(self) -> tuple[int, Phase]:
        """Which request it is at, and what of it."""
        ...

    @property
    def received_bytes(self) -> int:
        """All that has come in."""
        ...

    @property
    def held_up(self) -> bool:
        """Whether it is us who don't read on."""
        ...

    def unsent(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        ...

    def close_idle(self) -> None:
        """Close it, as nothing is asked on it."""
        ...

    def close_left(self) -> None:
        """Close it if its client has gone, though it is us who don't read on."""
        ...

    def time_out(self, detail: str) -> None:
        """Refuse the request that doesn't come, and close it."""
        ...

    def cut(self) -> None:
        """Close it at once, with what is unsent."""
        ...


class Unsent:
    """Answers that clients have not taken yet. When they are too many bytes, the one that was begun first is cut:
    who reads what he asked for has done so long before. So it is among those of one client, who has his share."""

    def __init__(self, bytes_max: int, share: float) -> None:
        """`share`: of all the bytes, for one client."""
        self._room = Room.shared(bytes_max, share)
        self._holders: Holders[Watched] = Holders(self._room)

    @property
    def bytes(self) -> int:
        """How many they are."""
        return self._room.taken

    def add(self, connection: Watched, size: int) -> None:
        """So many bytes of this connection's are unsent now."""
        room, holders, client = self._room, self._holders, connection.client_address
        holders.put(connection, client, size)
        while room.of(client) > room.each_most and holders.count_of(client) > 1:
            self._cut(holders.first_of(client))
        while room.taken > room.most and len(holders) > 1:
            self._cut(holders.first())

    def _cut(self, slowest: Watched) -> None:
        self.remove(slowest)
        slowest.cut()

    def remove(self, connection: Watched) -> None:
        """None of this connection's are, any more."""
        self._holders.remove(connection)


class Uploads:
    """Bodies that have begun to come and are not whole yet. When they are too many bytes, one that doesn't go on
    is given up for the others; when all do, the newcomer is. So it is among those of one client, known by its network,
    who has his share."""

    def __init__(self, bytes_max: int, each_bytes_max: int, share: float, clock: Callable[[], float]) -> None:
        """`each_bytes_max`: more of one body is never kept. `share`: of all the bytes, for one client."""
        self._room = Room.shared(bytes_max, share)
        self._each_bytes_max = each_bytes_max
        self._share = share
        self._clock = clock
        self._holders: Holders[Watched] = Holders(self._room)
        """The one first that hasn't gone on for longest."""
        self._went_on_s: dict[Watched, float] = {}

    @property
    def bytes(self) -> int:
        """How many they are."""
        return self._room.taken

    def add(self, connection: Watched, size: int) -> bool:
        """So many bytes more have come; False when there is no room for them."""
        now, client, room, holders = self._clock(), connection.client_address, self._room, self._holders
        held = min(holders.size_of(connection) + size, self._each_bytes_max)
        holders.put(connection, client, held)
        self._went_on_s[connection] = now
        most = room.most if held > SMALL_BYTES else room.most * 5 // 4
        each_most = int(most * self._share)
        while room.of(client) > each_most and holders.count_of(client) > 1:
            if not self._give_way(holders.first_of(client), connection, now):
                return False
        while room.taken > most:
            if not self._give_way(holders.first(), connection, now):
                return False
        return True

    def _give_way(self, stalest: Watched, connection: Watched, now: float) -> bool:
        """Make room: by giving up the one that hasn't gone on for longest, or else, and then False, the newcomer."""
        if stalest is connection or now - self._went_on_s[stalest] < STALE_S:
            self.remove(connection)
            return False
        self.remove(stalest)
        stalest.time_out("the body did not go on, and others need the room")
        return True

    def remove(self, connection: Watched) -> None:
        """It is whole, or will never be."""
        self._holders.remove(connection)
        self._went_on_s.pop(connection, None)


class Watch:
    """The limits of time, held for the connections of one server."""

    def __init__(self, limits: Listener, connections: Iterable[Watched]) -> None:
        """`connections`: those that there are, whenever it is asked."""
        self._connections = connections
        self._head_s = limits.head_ms_max / 1000
        self._idle_s = limits.idle_ms_max / 1000
        self._stall_s = limits.stall_ms_max / 1000
        self._bytes_min = limits.stall_bytes_min
        shortest = min(self._head_s, self._idle_s, self._stall_s)
        self._pause_s = min(max(shortest / 4, 0.02), 1.0)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch, until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._pause_s)
            connections = list(self._connections)
            for begin in range(0, len(connections), STEP):
                for connection in connections[begin : begin + STEP]:
                    self.look(connection, loop.time())
                await asyncio.sleep(0)

    def look(self, connection: Watched, now_s: float) -> None:
        """Close the connection if it has taken too long, or is left."""
        connection.close_left()
        self._look_at_answer(connection, now_s)
        at = connection.at
        if at != connection.seen:
            connection.seen, connection.seen_s, connection.seen_bytes = at, now_s, connection.received_bytes
            return
        phase, taken_s = at[1], now_s - connection.seen_s
        if phase is Phase.IDLE and taken_s >= self._idle_s:
            connection.close_idle()
        elif phase is Phase.HEAD and taken_s >= self._head_s:
            connection.time_out(f"the request's head took more than {self._head_s:g} s")
        elif phase is Phase.BODY and taken_s >= self._stall_s:
            if not connection.held_up and connection.received_bytes - connection.seen_bytes < self._bytes_min:
                connection.time_out(f"less than {self._bytes_min} bytes of the body came in {self._stall_s:g} s")
            connection.seen_s, connection.seen_bytes = now_s, connection.received_bytes

    def _look_at_answer(self, connection: Watched, now_s: float) -> None:
        left = connection.unsent()
        if not left or not connection.unsent_bytes or left > connection.unsent_bytes:
            connection.unsent_s, connection.unsent_bytes = now_s, left
        elif now_s - connection.unsent_s >= self._stall_s:
            if connection.unsent_bytes - left < self._bytes_min:
                connection.cut()
            connection.unsent_s, connection.unsent_bytes = now_s, left
