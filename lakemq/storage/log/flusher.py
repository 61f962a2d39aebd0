"""Bringing the log to disk: group fsync, off the event loop.

One fsync runs at a time. What is written while it runs waits for the next one, so any number of
appends share it. A failed fsync is never tried again on the same pages, since the kernel may have
dropped them: the log stops taking writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Protocol

from lakemq.model.errors import StoreUnwritable
from lakemq.model.histogram import Histogram
from lakemq.settings import Storage
from lakemq.storage.log.receiver import Receiver, StoredOne, tell_failed, tell_stored

logger = logging.getLogger(__name__)


class Flusher:
    """Knows how far the log is on disk, and brings it further in time.

    A flush starts at the latest `flush_interval_ms` after a write, or when `flush_bytes` are dirty, or at
    once when somebody waits for one. `sync` does it, in a thread; what it returns is called on the
    loop before the waiters are answered. `on_flushed` is called when it is further, `on_failed` when it never will be.
    """

    def __init__(
        self,
        sync: Callable[[], Callable[[], None]],
        settings: Storage,
        position: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`loop`: the log's."""
        self._prepare = sync
        self._interval_s = settings.flush_interval_ms / 1000
        self._bytes_max = settings.flush_bytes
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._waiters: deque[tuple[int, Receiver[None]]] = deque()
        self._wanted = position
        self.on_flushed: Callable[[], None] = lambda: None
        self.on_failed: Callable[[str], None] = lambda why: None
        self.written_position = position
        self.flushed_position = position
        self.dirty_bytes = 0
        self.dirty_bytes_max = settings.dirty_bytes_max
        """More should wait; each request asks, and looks into settings take long."""
        self.failure: str | None = None
        self.durations, self.sync_durations = Histogram(), Histogram()
        """Of flushes that succeeded, in seconds: until who waits is told, and what the disk took of it."""

    def wrote(self, position: int, size: int) -> None:
        """Tell that the log was written up to `position`, `size` bytes more."""
        self.written_position = position
        self.dirty_bytes += size
        if self._running:
            return
        if self.dirty_bytes >= self._bytes_max:
            self.start()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self.start)

    def wait(self, position: int) -> asyncio.Future[None]:
        """A future that is done when the log is on disk up to `position`, or fails with
        `StoreUnwritable` when that can't be promised any more."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.tell(position, future)
        return future

    def tell(self, position: int, receiver: Receiver[None]) -> None:
        """`wait`, but `receiver` is told."""
        if self.failure is not None:
            receiver.set_exception(StoreUnwritable(self.failure))
        elif position <= self.flushed_position:
            receiver.set_result(None)
        else:
            self._waiters.append((position, receiver))
            self.want(position)

    def want(self, position: int) -> None:
        """Have the log be on disk up to `position` soon."""
        self._wanted = max(self._wanted, position)
        if not self._running:
            # After the callbacks that are ready now: they may write too.
            self._loop.call_soon(self.start)

    def start(self) -> None:
        """Begin a flush, unless one runs, has failed, or there is nothing to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running or self.failure is not None or self.written_position <= self.flushed_position:
            return
        flush = self._prepare()
        self._running = True
        position, size = self.written_position, self.dirty_bytes
        began_s = perf_counter()
        task = self._loop.run_in_executor(self._pool, self._timed, flush)
        task.add_done_callback(lambda done: self._finish(done, position, size, began_s))

    def _timed(self, flush: Callable[[], None]) -> float:
        """Flush, in the thread; returns how many seconds it took."""
        began_s = perf_counter()
        flush()
        return perf_counter() - began_s

    def _finish(self, done: asyncio.Future[float], position: int, size: int, began_s: float) -> None:
        self._running = False
        error = done.exception()
        if error is not None:
            self.fail(f"a flush to disk has failed ({error}); restart the gateway to recover what is on disk")
            return
        self.sync_durations.note(done.result())
        self.durations.note(perf_counter() - began_s)
        self.flushed_position = position
        self.dirty_bytes -= size
        waiters = self._waiters
        reached: list[Receiver[None]] = []
        while waiters and waiters[0][0] <= position:
            reached.append(waiters.popleft()[1])
        # The disk goes on while they are told.
        if waiters or self._wanted > position:
            self.start()
        elif self.dirty_bytes > 0:
            self.wrote(self.written_position, 0)
        for receiver in reached:
            tell_stored(receiver, None)
        self.on_flushed()

    def fail(self, why: str) -> None:
        """Never promise anything again; everybody who waits is told."""
        logger.error("%s", why)
        self.failure = why
        while self._waiters:
            tell_failed(self._waiters.popleft()[1], StoreUnwritable(why))
        self.on_failed(why)

    def close(self) -> None:
        """Wait for a running flush and give the thread back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pool.shutdown(wait=True)


class Keeps(Protocol):
    """Who says when the log is safe up to a position."""

    def tell(self, position: int, receiver: Receiver[None]) -> None:
        """Tell the receiver when it is, or that this can't be promised."""
        ...


class OnDisk:
    """Tells a receiver where its message was stored, as soon as that is safe too: it is told of both itself."""

    __slots__ = ("_keeps", "_receiver", "_stored", "done", "set_exception")

    def __init__(self, keeps: Keeps, receiver: Receiver[StoredOne]) -> None:
        self._keeps = keeps
        self._receiver = receiver
        self._stored: StoredOne | None = None
        self.done = receiver.done
        self.set_exception = receiver.set_exception

    def set_result(self, stored: StoredOne | None, /) -> None:
        if self._stored is not None:
            self._receiver.set_result(self._stored)
        elif stored is not None:
            self._stored = stored
            _, _, position, _ = stored
            self._keeps.tell(position + 1, self)
