"""Work whose size a client chooses: off the event loop, in a few threads, with a bound on what is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

from lakemq.model.errors import Busy

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

THREADS = 2
"""They share one interpreter with the loop: more of them would only take more memory at once."""
SMALL_BYTES = 64 * 1024
"""A request that is no larger is worked on, however much is under way."""
WAITING_MAX = 2_000
"""Pieces of work that wait for a thread."""


class Workshop:
    """Threads for one kind of work, so that one kind doesn't wait for another."""

    def __init__(self, name: str, bytes_max: int) -> None:
        """`bytes_max`: of all that is worked on, or waits for it, as it came."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._bytes_max = bytes_max
        self._waiting = 0
        self.bytes = 0

    @contextmanager
    def holding(self, size: int) -> Generator[None]:
        """Count `size` bytes that are worked on; raises `Busy` when they are too many, unless they are few."""
        if size > SMALL_BYTES and self.bytes + size > self._bytes_max:
            raise Busy("the requests under way have too many bytes together")
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size

    async def run(self, work: Callable[[*Ts], R], *arguments: *Ts) -> R:
        """What `work` returns, from a thread; raises `Busy` when too much waits for one."""
        if self._waiting >= WAITING_MAX:
            raise Busy("too many requests wait to be worked on")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
