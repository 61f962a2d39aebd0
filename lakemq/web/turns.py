"""Turns for connections that have sent more than one request: each goes on by one request, then the next one does.

What a connection sends ahead waits as it came, unread, until its answers have gone: so a client that sends requests
by the thousand holds no more than what is read at one go, and takes no more of the loop than others let it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

TURN_S = 0.005
"""So long a turn of the loop may take before fewer requests are begun in one."""
BEGUN_MAX = 64
"""Requests sent ahead that are begun in one turn of the loop, when turns are short."""
_END_OF_HEAD = b"\r\n\r\n"


class Waiting(Protocol):
    """A connection with requests that were sent ahead."""

    def go_on(self) -> None:
        """Begin its next request, or take in the next piece of it."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...


class Turns:
    """Who goes on next, and how many do before the loop looks after everything else again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self._scheduled = False
        self._begun_s = 0.0
        self._at_once = BEGUN_MAX

    def add(self, connection: Waiting) -> None:
        """Let it go on once, when it is its turn."""
        self._waiting[connection] = None
        if not self._scheduled:
            self._scheduled = True
            self._begun_s = self._clock()
            asyncio.get_running_loop().call_soon(self.run)

    def remove(self, connection: Waiting) -> None:
        """It doesn't want to go on any more."""
        self._waiting.pop(connection, None)

    def run(self) -> None:
        """Let some go on, and the others after everything else."""
        now = self._clock()
        long = now - self._begun_s > TURN_S
        self._at_once = max(self._at_once // 2, 1) if long else min(self._at_once + 1, BEGUN_MAX)
        begun = 0
        try:
            # One always: where the process was held up just here none would begin, and nobody would come back to them.
            while self._waiting and begun < self._at_once and (not begun or self._clock() - now < TURN_S):
                begun += 1
                self._waiting.popitem(last=False)[0].go_on()
        finally:
            # Once more even if nobody waits: what was begun is seen to first, and so it is known how long that took.
            self._scheduled, self._begun_s = begun > 0, now
            if begun:
                asyncio.get_running_loop().call_soon(self.run)


class Flow(FlowControl):
    """uvicorn's, which doesn't read on while there is something to do that came ahead of its turn."""

    full = False

    def resume_reading(self) -> None:
        """Take in what comes, if there is room for it."""
        if not self.full:
            super().resume_reading()


class Unread:
    """What one connection has sent and nobody has looked at yet."""

    __slots__ = ("_at", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def add(self, data: bytes) -> None:
        """So much more has come."""
        self._data = self._data[self._at :] + data if self else data
        self._at = 0

    def head_bytes(self, bytes_max: int) -> int | None:
        """How long the head is that it begins with; None when its end is not among so many bytes."""
        end = self._data.find(_END_OF_HEAD, self._at, self._at + bytes_max)
        return None if end < 0 else end + len(_END_OF_HEAD) - self._at

    def take(self, size: int) -> memoryview:
        """The next bytes, at most so many."""
        taken = memoryview(self._data)[self._at : self._at + size]
        self._at += len(taken)
        if not self:
            self._data, self._at = b"", 0
        return taken


class Ahead:
    """Bytes that came ahead of their turn. When they are too many, who has held his for longest is cut."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0
        self._of: OrderedDict[Waiting, int] = OrderedDict()

    def set(self, connection: Waiting, size: int) -> None:
        """So many bytes of this connection's wait now."""
        held = self._of.get(connection, 0)
        self.bytes += size - held
        if size:
            self._of[connection] = size
        elif held:
            del self._of[connection]
        while self.bytes > self._bytes_max and len(self._of) > 1:
            oldest = next(iter(self._of))
            self.set(oldest, 0)
            oldest.cut()
