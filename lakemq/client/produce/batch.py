"""Messages that are sent in one request, and the outcome of each."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, cast

from lakemq.client.ended import Ended
from lakemq.client.errors import Closed
from lakemq.client.loop import FORKED
from lakemq.client.outgoing import Message, MessageFields, SendReceipt
from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

Outcome = Callable[[int], SendReceipt | LakemqError]
"""The outcome of a batch's message, by its number in the batch."""

MESSAGE_OVERHEAD_BYTES = 100
"""About what a message takes in memory beside its body: in a list, and a future."""

_forks = 0
"""How many forks this process has come by."""


class Batch:
    """Messages of one topic, filled by any thread under its producer's lock, sent by the event loop.

    Its end needs no lock of its own, so what a signal handler has interrupted of a batch doesn't keep it from ending.

    `columns`: each field that a message of it has, with its values by the message's number.
    """

    __slots__ = (
        "_callbacks",
        "_forks",
        "begun_s",
        "bodies",
        "columns",
        "outcome",
        "size",
        "topic",
        "when_asked",
    )

    def __init__(self, topic: str, begun_s: float) -> None:
        self.topic = topic
        self.begun_s = begun_s
        self.bodies: list[bytes] = []
        self.columns: dict[str, dict[int, Any]] = {}
        self.size = 0
        self.outcome: Outcome | None = None
        self.when_asked: Callable[[int], None] | None = None
        """Told the number of a message that failed, as its sender asks."""
        self._forks = _forks
        self._callbacks: dict[object, tuple[Callable[[Any], object], Any]] = {}
        """Whoever takes one out calls it, so each is called once."""

    def add(self, body: bytes, fields: MessageFields) -> int:
        """Add a message; its number. Its size is the caller's to count."""
        number = len(self.bodies)
        self.bodies.append(body)
        columns = self.columns
        for name, value in fields.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = {}
            column[number] = value
        return number

    def put(self, name: str, number: int, value: object) -> None:
        """Give a message's field another value."""
        self.columns.setdefault(name, {})[number] = value

    def fields(self, number: int) -> MessageFields:
        """What a message has beside its body."""
        return cast(
            "MessageFields", {name: column[number] for name, column in self.columns.items() if number in column}
        )

    def part(self, begin: int, end: int) -> Batch:
        """A batch of some of these messages."""
        made = Batch(self.topic, self.begun_s)
        for number in range(begin, end):
            made.add(self.bodies[number], self.fields(number))
        return made

    def messages(self) -> list[Message]:
        """What is in it, as who sent it might have written it; nothing once it has ended."""
        return [Message(body=body, **self.fields(number)) for number, body in enumerate(self.bodies)]

    def end(self, outcome: Outcome) -> None:
        """`settle` and `tell`."""
        self.settle(outcome)
        self.tell()

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome; only the first call counts. Releases the messages. On the event loop."""
        if self.outcome is None:
            self.outcome = outcome
            self.bodies = []
            self.columns = {}

    def tell(self) -> None:
        """Notify all who wait for the outcome, which is there. On the event loop."""
        for key in list(self._callbacks):
            self._call_back(key)

    def result(self, number: int) -> SendReceipt | LakemqError:
        """The outcome of a message of a finished batch, as its sender sees it."""
        assert self.outcome is not None
        result = self.outcome(number)
        if self.when_asked is not None and isinstance(result, LakemqError):
            self.when_asked(number)
        return result

    def when_ended(self, callback: Callable[[Any], object], argument: Any) -> None:
        """Have `callback(argument)` called at the end, by the event loop's thread; at once, here, when it
        has ended."""
        self._add_callback(callback, argument)

    def _add_callback(self, callback: Callable[[Any], object], argument: Any) -> object:
        key = object()
        self._callbacks[key] = callback, argument
        if self.outcome is not None:  # `end` may have come by before the callback was there
            self._call_back(key)
        return key

    def _call_back(self, key: object) -> None:
        found = self._callbacks.pop(key, None)
        if found is not None:
            _call(*found)

    def wait(self, timeout_s: float | None) -> None:
        """Wait for the end in a thread that isn't the event loop's; raises `TimeoutError`, and
        `Closed` in a forked child, where nothing ends."""
        if self.outcome is None and self._forks != _forks:
            raise Closed(FORKED)
        ended = Ended()
        key = self._add_callback(Ended.tell, ended)
        try:
            if not ended.wait(timeout_s):
                raise TimeoutError("the message is still on its way")
        finally:
            self._callbacks.pop(key, None)


def _leave() -> None:
    """This is a forked child."""
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


class Failed:
    """The outcome of a batch that failed as a whole."""

    __slots__ = ("_error",)

    def __init__(self, error: LakemqError) -> None:
        self._error = error

    def __call__(self, number: int) -> LakemqError:
        return self._error


class Halves:
    """The outcome of a batch that was sent in two, as something in it failed."""

    __slots__ = ("_first", "_half", "_second")

    def __init__(self, first: Outcome, half: int, second: Outcome) -> None:
        self._first = first
        self._half = half
        self._second = second

    def __call__(self, number: int) -> SendReceipt | LakemqError:
        return self._first(number) if number < self._half else self._second(number - self._half)


def _call(callback: Callable[[Any], object], argument: Any) -> None:
    try:
        callback(argument)
    except (Exception, SystemExit):  # as with futures of threads: others are still to be told
        logger.exception("a callback of a sent message failed")


def delay_fields(fields: MessageFields) -> dict[str, int]:
    """A message's delay as the contract's field of its JSON."""
    level, delay, deliver_at = fields.get("delay_level"), fields.get("delay"), fields.get("deliver_at")
    if level is not None:
        return {"delay_level": level}
    if deliver_at is not None:
        return {"deliver_at_ms": round(deliver_at.timestamp() * 1000)}
    if delay is not None:
        seconds = delay if isinstance(delay, int | float) else delay.total_seconds()
        return {"delay_ms": round(seconds * 1000)}
    return {}


async def until_ended(batch: Batch) -> Outcome:
    """Wait for a batch's end, on the event loop."""
    if batch.outcome is None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch.when_ended(_wake_waiter, waiter)
        await waiter
    assert batch.outcome is not None
    return batch.outcome


def _wake_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
