"""How far the log is confirmed: on this disk, and on all others that count. Whoever may only be told, or shown, what
no single loss undoes waits here.

Without others that count, confirmed is what is on this disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from lakemq.model.errors import NotConfirmed, StoreUnwritable
from lakemq.model.in_sync import confirmed
from lakemq.storage.log.flusher import Flusher
from lakemq.storage.log.receiver import Receiver, tell_failed, tell_stored
from lakemq.storage.state.topics import Queue
from lakemq.storage.state.waking import wake_all


class Waking:
    """Who waits for it to go on, as for a queue."""

    def __init__(self) -> None:
        self.waiters: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Tell all who wait."""
        waiters, self.waiters = self.waiters, set()
        wake_all(waiters)


class Confirmed(Waking):
    """That of one log. Lives on its loop.

    `awaited`: somebody waits for all below it to be confirmed; who is asked for it is woken in `asked`.
    """

    def __init__(self, flusher: Flusher, wait_ms_max: int, loop: asyncio.AbstractEventLoop) -> None:
        """`loop`: the log's."""
        super().__init__()
        self._flusher = flusher
        self._wait_s_max = wait_ms_max / 1000
        self._loop = loop
        self._waiters: deque[tuple[int, Receiver[None], float]] = deque()
        self._hidden: deque[tuple[int, list[tuple[Queue, int]]]] = deque()
        self._bound: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.position = flusher.flushed_position
        self.awaited = 0
        self.missing = b""
        """The replicas, as a list of numbers, without which all is confirmed; empty: none is missing."""
        self.asked = Waking()
        flusher.on_flushed = self._move
        flusher.on_failed = lambda why: self.refuse(StoreUnwritable(why))

    # Who waits -------------------------------------------------------------------------------

    def wait(self, position: int) -> asyncio.Future[None]:
        """A future that is done when all below `position` is confirmed. It fails with `StoreUnwritable` when that can't
        be promised any more, or didn't happen in time: what was written may be stored then, or not."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.tell(position, future)
        return future

    def tell(self, position: int, receiver: Receiver[None]) -> None:
        """`wait`, but `receiver` is told."""
        failure = self._flusher.failure
        if failure is not None:
            receiver.set_exception(StoreUnwritable(failure))
        elif position <= self.position:
            receiver.set_result(None)
        else:
            self._waiters.append((position, receiver, self._loop.time()))
            self.ask(position)
            if self._bound is not None and self._timer is None:
                self._arm()

    def ask(self, position: int) -> None:
        """Have all below be confirmed soon."""
        self._flusher.want(position)
        if position > self.awaited:
            self.awaited = position
            self.asked.wake()

    def _arm(self) -> None:
        """Look at who waits for too long when the first one does."""
        self._timer = None
        if self._waiters and self._bound is not None:
            self._timer = self._loop.call_at(self._waiters[0][2] + self._wait_s_max, self._expire)

    def _expire(self) -> None:
        before = self._loop.time() - self._wait_s_max
        while self._waiters and self._waiters[0][2] <= before:
            _, receiver, _ = self._waiters.popleft()
            why = f"it is written, but the log is confirmed up to {self.position} only"
            tell_failed(receiver, NotConfirmed(f"{why}: it may be stored"))
        self._arm()

    def refuse(self, error: StoreUnwritable) -> None:
        """Tell all who wait that it can't be promised."""
        while self._waiters:
            tell_failed(self._waiters.popleft()[1], error)

    # How far it is ---------------------------------------------------------------------------

    def close(self) -> None:
        """Look no more at who waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, position: int) -> None:
        """No more than that is known to be confirmed, as the log is opened, until `limit` says more."""
        self.position = min(self.position, position)
        self._bound = self.position

    def limit(self, bound: int | None) -> None:
        """So far all others have it on disk; None: there are none that count."""
        self._bound = bound
        if bound is not None and self._timer is None:
            self._arm()
        self._move()

    def _move(self) -> None:
        position = confirmed(self.position, self._flusher.flushed_position, self._bound)
        if position == self.position:
            return
        self.position = position
        if self._hidden:
            self._show()
        waiters = self._waiters
        reached: list[Receiver[None]] = []
        while waiters and waiters[0][0] <= position:
            reached.append(waiters.popleft()[1])
        for receiver in reached:
            tell_stored(receiver, None)
        if self.waiters:
            self.wake()

    # What is hidden --------------------------------------------------------------------------

    def hide(self, end: int, groups: Iterable[tuple[Queue, int]]) -> None:
        """Consumers don't see the newest so many messages of these queues, until all below `end` is confirmed."""
        if end <= self.position:
            return
        hidden = list(groups)
        for queue, count in hidden:
            queue.unconfirmed += count
        self._hidden.append((end, hidden))

    def show_all(self) -> None:
        """Nothing is hidden any more."""
        self._show(everything=True)

    def _show(self, everything: bool = False) -> None:
        hidden = self._hidden
        while hidden and (everything or hidden[0][0] <= self.position):
            for queue, count in hidden.popleft()[1]:
                queue.unconfirmed -= count
                queue.wake()
