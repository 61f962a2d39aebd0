"""Who is told what became of an append, and what they are told."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, Protocol, TypeVar

from lakemq.model.message import Placed

UNTOLD = "could not answer a request that waited for the log"

logger = logging.getLogger(__name__)

Result = TypeVar("Result", contravariant=True)


class Receiver(Protocol[Result]):
    """Who is told what became of an append: a future, or what takes its place. It is told by who
    writes the frame, or brings it to disk, so it must be quick and not fail."""

    def done(self) -> bool:
        """Whether it needs to know no more."""
        ...

    def set_result(self, result: Result, /) -> None:
        """It is stored, and on disk where that was waited for."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Nothing of it is stored; or, where the disk was waited for, it may be lost."""
        ...


def tell_stored(receiver: Receiver[Result], result: Result) -> None:
    """Say that it is stored. A receiver ought not to fail; if one does, others of its frame must not pay for it: to
    be told that nothing was stored they would send it again."""
    try:
        if not receiver.done():
            receiver.set_result(result)
    except Exception:
        logger.exception(UNTOLD)


def tell_failed(receiver: Receiver[Any], error: Exception) -> None:
    """Say that it isn't, with the same care."""
    try:
        if not receiver.done():
            receiver.set_exception(error)
    except Exception:
        logger.exception(UNTOLD)


class Stored(NamedTuple):
    """Where a request's messages are, in the request's order; all were stored at one time."""

    placed: list[Placed]
    store_time_ms: int


StoredOne = tuple[int, int, int, int]
"""Where one message is: `(queue id, queue offset, position, store time in ms)`."""


class PassOn:
    """Tells who waits for one message what a request of several is told."""

    __slots__ = ("_receiver", "done", "set_exception")

    def __init__(self, receiver: Receiver[StoredOne]) -> None:
        self._receiver = receiver
        self.done = receiver.done
        self.set_exception = receiver.set_exception

    def set_result(self, stored: Stored, /) -> None:
        queue_id, queue_offset, position = stored.placed[0]
        self._receiver.set_result((queue_id, queue_offset, position, stored.store_time_ms))
