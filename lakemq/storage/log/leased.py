"""Promises of a leader in whose place another may lead: none is given once that may be so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lakemq.model.errors import StoreUnwritable
from lakemq.storage.log.flusher import Keeps
from lakemq.storage.log.receiver import Receiver

Lost = Callable[[], StoreUnwritable | None]
"""Why nothing may be promised any more; None: it may."""


class Leased:
    """`Keeps`, as long as the lease holds: that is looked at when the promise is given."""

    def __init__(self, keeps: Keeps, lost: Lost) -> None:
        self._keeps = keeps
        self._lost = lost

    def tell(self, position: int, receiver: Receiver[None]) -> None:
        """`Keeps.tell`."""
        self._keeps.tell(position, _Looks(receiver, self._lost))


class _Looks:
    __slots__ = ("_lost", "_receiver", "done", "set_exception")

    def __init__(self, receiver: Receiver[None], lost: Lost) -> None:
        self._receiver = receiver
        self._lost = lost
        self.done = receiver.done
        self.set_exception = receiver.set_exception

    def set_result(self, result: None, /) -> None:
        lost = self._lost()
        if lost is None:
            self._receiver.set_result(result)
        else:
            self.set_exception(lost)


def while_leased(waits: asyncio.Future[None] | None, lost: Lost) -> asyncio.Future[None] | None:
    """What is waited for, and then that the lease holds; None: there was nothing to wait for, and it does."""
    if waits is not None:
        return asyncio.ensure_future(_then(waits, lost))
    if (why := lost()) is None:
        return None
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    refused.set_exception(why)
    return refused


async def _then(waits: asyncio.Future[None], lost: Lost) -> None:
    await waits
    if (why := lost()) is not None:
        raise why
