"""Who is told what became of an append, and what they are told."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from lakemq.model.message import Placed

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
