"""Work whose size a client chooses: off the event loop, in a thread, with a bound on what is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TypeVar, TypeVarTuple

from lakemq.gateway.work.run import Run
from lakemq.model.errors import Busy
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate
from lakemq.web.room import Room

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

THREADS = 1
"""It shares one interpreter with the loop: more of them would only take more memory, and the loop's time."""
SMALL_BYTES = 64 * 1024
"""A request that is no larger is worked on, however much is under way."""
WAITING_MAX = 2_000
"""Pieces of work that wait for a thread."""
ROOMS = 1
"""Requests that have been decoded and are not stored yet: each may be `gateway.request_bytes_max`, some times over."""


class Workshop:
    """A thread for one kind of work, so that one kind doesn't wait for another. Clients have it in turn."""

    def __init__(self, name: str, bytes_max: int, share: float) -> None:
        """`bytes_max`: of all that is worked on, or waits for it, as it came; this `share` of it for one client."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._gate = Gate(THREADS, WAITING_MAX, share)
        self._rooms = Gate(ROOMS, WAITING_MAX, share)
        self._room = Room.shared(bytes_max, share)

    @property
    def bytes(self) -> int:
        """How many are worked on."""
        return self._room.taken

    @contextmanager
    def holding(self, size: int, client: Client = None) -> Generator[None]:
        """Count `size` bytes that are worked on; raises `Busy` when they are too many, unless they are few."""
        room = self._room
        held = room.of(client)
        if size > SMALL_BYTES and room.taken + size > room.most:
            raise Busy("the requests under way have too many bytes together")
        if size > SMALL_BYTES and held and held + size > room.each_most:
            raise Busy("this client's requests under way have too many bytes together (gateway.client_share)")
        with room.place(client, size):
            yield

    @asynccontextmanager
    async def room(self, client: Client) -> AsyncGenerator[None]:
        """Have the room that a large request takes once it is inflated and decoded. Raises `Busy`."""
        async with self._rooms.place(client):
            yield

    async def run(self, work: Callable[[*Ts], R], *arguments: *Ts) -> R:
        """What `work` returns, from a thread; raises `Busy` when too much waits for one."""
        return await self._run(None, work, *arguments)

    def run_for(self, client: Client) -> Run:
        """`run`, in this client's turn."""
        return partial(self._run, client)

    @contextmanager
    def kept_for(self, client: Client) -> Generator[Run]:
        """`run_for` that finds room to wait in, however much comes meanwhile: for what has to be said once something
        was done. Raises `Busy` at once when too much waits already."""
        with self._gate.keep(client):
            yield partial(self._run, client, kept=True)

    async def _run(self, client: Client, work: Callable[[*Ts], R], *arguments: *Ts, kept: bool = False) -> R:
        async with self._gate.place(client, kept=kept):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    @property
    def waiting(self) -> int:
        """Pieces of work, and requests, that wait for their turn."""
        return self._gate.waiting + self._rooms.waiting

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
