"""What a listener answers about a message, and the running of listeners over messages in work."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple, cast

from lakemq.client.consume.called import bodies_of, is_async
from lakemq.client.consume.outlook import Outlook
from lakemq.client.consume.process_queue import Work
from lakemq.client.consume.reason import Reasons, reason_of
from lakemq.client.view import MessageView
from lakemq.client.wrong_type import WrongType
from lakemq.model.delay import LEVELS_MS, level_of_delay
from lakemq.model.errors import InvalidRequest
from lakemq.model.failure import Failure

logger = logging.getLogger("lakemq.client")

LEVEL_MAX = 2**31


class ConsumeResult(Enum):
    """The outcome of a message. If a listener returns None, it is `SUCCESS`; if it raises an exception, `LATER`."""

    SUCCESS = "success"
    LATER = "later"
    """It comes again after a while, and after `max_reconsume_times` goes to the dead letters. In an
    orderly consumer the same as `SUSPEND`."""
    SUSPEND = "suspend"
    """Its queue is held up, and the same message is tried again. Only an orderly consumer does that:
    in a concurrent one it is the same as `LATER`."""


class ConsumeLater(Exception):
    """A listener raises this to return `LATER` with its own delay, and with a reason that is kept with the message.

    `level`: one of the broker's delay levels; 0: the broker chooses the delay, which grows with each attempt; < 0: the
    message becomes a dead letter at once. `delay`: rounded up to the next of RocketMQ's levels, at most 2 hours.
    `reason`: a text or an error; by default the error that this is raised `from`, if there is one. Invalid arguments
    raise `WrongType` or `InvalidRequest` at once. These count as any other error of the listener: the message is
    delivered again.

    A positional number is a level, too. Because a number above 0 looks like seconds, it causes a `DeprecationWarning`.
    """

    delay_level: int = 0
    reason: str | BaseException | None = None

    def __init__(
        self,
        *given: int | str | BaseException | timedelta | None,
        level: int | None = None,
        delay: timedelta | None = None,
        reason: str | BaseException | None = None,
        delay_level: int | None = None,
    ) -> None:
        at_place: dict[str, Any] = dict(zip(_PLACES, given, strict=False))
        if len(given) > len(_PLACES):
            raise TypeError("ConsumeLater takes a level and a reason, and names for what is more")
        first = at_place.get("level")
        if isinstance(first, timedelta):
            delay, first = first, None
        said = [each for each in (first, level, delay_level, delay) if each is not None]
        if len(said) > 1:
            raise InvalidRequest("a message that is consumed later has a level or a delay, and one of them")
        found: object = level_after(delay) if delay is not None else next(iter(said), 0)
        if isinstance(found, bool) or not isinstance(found, int) or abs(found) > LEVEL_MAX:
            raise WrongType("a delay level is a whole number of at most 32 bits", found)
        if first is not None and found > 0:
            warnings.warn(_AMBIGUOUS.format(found), DeprecationWarning, stacklevel=2)
        super().__init__(f"consume later, delay level {found}")
        self.delay_level = found
        self.reason = at_place.get("reason", reason)


def level_after(delay: timedelta) -> int:
    """The first of RocketMQ's levels that is no shorter. Raises `WrongType`, and `InvalidRequest` where all are."""
    if not isinstance(cast("object", delay), timedelta):
        raise WrongType("a delay is a timedelta", delay)
    level = level_of_delay(-(-delay // timedelta(milliseconds=1)), LEVELS_MS) if delay >= timedelta(0) else None
    if level is None:
        raise InvalidRequest(f"a message that failed comes again after 0 to {LEVELS_MS[-1] // 1000:,} s, not {delay}")
    return level


_PLACES = ("level", "reason")
_AMBIGUOUS = (
    "ConsumeLater({0}) is delay level {0}, and not {0} seconds: say ConsumeLater(level={0}), or "
    "ConsumeLater(delay=timedelta(seconds={0}))"
)

Listener = Callable[[MessageView], ConsumeResult | None]
BatchListener = Callable[[list[MessageView]], ConsumeResult | None]
AsyncListener = Callable[[MessageView], Awaitable[ConsumeResult | None]]
AsyncBatchListener = Callable[[list[MessageView]], Awaitable[ConsumeResult | None]]

Fail = Callable[[str], object]
"""Says that what is processed is to come again, as its listener asked by that word."""
Span = Callable[[Sequence[MessageView]], AbstractContextManager[Fail]]
"""Makes the span in which messages are processed together."""


def check_listener(listener: object, *, asynchronous: bool = False, takes: Sequence[str] = ("message",)) -> None:
    """Raises `InvalidRequest` for what would never run when it is called, or could not be awaited:
    `asynchronous` consumers take an `async def`, the others a plain function. `takes`: what it is called with."""
    if not callable(listener):
        raise InvalidRequest(f"a listener is a function that takes messages, not {listener!r:.100}")
    name = getattr(listener, "__qualname__", type(listener).__name__)
    if any(yields(each) for each in bodies_of(listener) for yields in _YIELDS):
        raise InvalidRequest(f"listener {name} has a yield in it: to call it runs nothing of it")
    if is_async(listener) and not asynchronous:
        raise InvalidRequest(
            f"listener {name} is an async def, which a call doesn't run: use lakemq.client.aio, or a plain function"
        )
    if asynchronous and not is_async(listener):
        raise InvalidRequest(
            f"listener {name} is no async def: a plain function would hold up all else here; use lakemq.client"
        )
    if not _can_take(listener, len(takes)):
        raise InvalidRequest(f"listener {name} can't be called with ({', '.join(takes)})")


def check_transaction_listener(listener: object, *, asynchronous: bool = False) -> None:
    """Raises `InvalidRequest`, as `check_listener`, for what does not have the two methods."""
    for name, takes in _TRANSACTION_METHODS.items():
        method = getattr(listener, name, None)
        if method is None:
            methods = " and ".join(f"{each}({', '.join(given)})" for each, given in _TRANSACTION_METHODS.items())
            raise InvalidRequest(f"a transaction's listener is an object with {methods}, not {listener!r:.100}")
        check_listener(method, asynchronous=asynchronous, takes=takes)


def _can_take(listener: Callable[..., object], count: int) -> bool:
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):  # a function written in C need not say
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


_TRANSACTION_METHODS = {
    "execute_local_transaction": ("message", "transaction_id", "argument"),
    "check_local_transaction": ("message",),
}

ENDS_LOOP = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""asyncio ends its loop on the first two, and closes a coroutine with the third: in a coroutine, none of them is about
the message. Any other exception of an asyncio listener is, whatever class it has."""

_YIELDS = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class Failed(NamedTuple):
    """The message of that number in its work wants to be consumed later, and why, where that is told."""

    number: int
    delay_level: int
    why: Failure | None = None


class Outcome(NamedTuple):
    """How a worker fared. `reached`: it processed the messages before that number, well but for those
    that `failed`; the rest it left, as it was told to stop or, in order, could not go on. `seconds`:
    from the first message's begin on."""

    reached: int
    failed: list[Failed]
    seconds: float


class Call:
    """How far a worker has come, for who watches it: `number` is that of the message which the listener has, and what
    has `failed` before it. `given_up`: it took too long, and nothing that it says counts any more."""

    __slots__ = ("failed", "given_up", "number")

    def __init__(self) -> None:
        self.number = 0
        self.failed: list[Failed] = []
        self.given_up = False


class Terms(NamedTuple):
    """How messages are processed. `stop` is asked before each message. `in_order`: none after one
    that failed. `outlook`: what comes then, where that is known."""

    stop: Callable[[], bool]
    in_order: bool
    span: Span | None
    call: Call
    reasons: Reasons = "full"
    outlook: Outlook | None = None


def _by_error(number: int, error: BaseException, message: MessageView, terms: Terms) -> Failed:
    if isinstance(error, ConsumeLater):
        return Failed(number, error.delay_level, reason_of(error.reason, error.__cause__, terms.reasons))
    comes = "" if terms.outlook is None else f": {terms.outlook.after(message.reconsume_times, message.topic)}"
    logger.error("the listener failed on message %s of %s%s", message.message_id, message.topic, comes, exc_info=error)
    return Failed(number, 0, reason_of(error, reasons=terms.reasons))


def _by_result(number: int, result: object, message: MessageView, terms: Terms) -> Failed:
    if not isinstance(result, ConsumeResult):
        error = TypeError(f"it returned {result!r:.100}, no ConsumeResult and not None")
        return _by_error(number, error, message, terms)
    return Failed(number, 0)


_NO_SPAN: AbstractContextManager[Fail] = nullcontext(lambda result: None)


def _told(result: ConsumeResult | None, fail: Fail) -> ConsumeResult | None:
    """The same, of which its span knows."""
    if isinstance(result, ConsumeResult) and result is not ConsumeResult.SUCCESS:
        fail(result.value)
    return result


def _ends_worker(error: BaseException) -> bool:
    """Whether it is about the loop, or the worker, which is cancelled, and not something that the listener waited for:
    so it isn't about the message."""
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, ENDS_LOOP)
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def run_listener(listener: Listener, work: Work[MessageView], terms: Terms) -> Outcome:
    """Process messages one by one, in the thread that calls."""
    call = terms.call
    failed = call.failed
    messages, stop, span, number = work.messages, terms.stop, terms.span, work.done
    success, begin_s = ConsumeResult.SUCCESS, time.perf_counter()
    while number < len(messages) and not stop():
        message = messages[number]
        call.number = number
        try:
            if span is None:
                result = listener(message)
            else:
                with span([message]) as fail:
                    result = _told(listener(message), fail)
            if result is not None and result is not success:
                failed.append(_by_result(number, result, message, terms))
        except BaseException as error:  # noqa: BLE001  whatever it raises, SystemExit too, is about its message
            failed.append(_by_error(number, error, message, terms))
        number += 1
        if not failed:
            work.done = number
        elif terms.in_order:
            break
    return Outcome(number, failed, time.perf_counter() - begin_s)


async def run_async_listener(listener: AsyncListener, work: Work[MessageView], terms: Terms) -> Outcome:
    """Process messages one by one."""
    call = terms.call
    failed = call.failed
    messages, number, begin_s = work.messages, work.done, time.perf_counter()
    while number < len(messages) and not terms.stop():
        message = messages[number]
        call.number = number
        try:
            if terms.span is None:
                result = await listener(message)
            else:
                with terms.span([message]) as fail:
                    result = _told(await listener(message), fail)
            if result is not None and result is not ConsumeResult.SUCCESS:
                failed.append(_by_result(number, result, message, terms))
        except BaseException as error:
            if _ends_worker(error):
                raise
            failed.append(_by_error(number, error, message, terms))
        number += 1
        if not failed:
            work.done = number
        elif terms.in_order:
            break
    return Outcome(number, failed, time.perf_counter() - begin_s)


def run_batch_listener(listener: BatchListener, work: Work[MessageView], terms: Terms) -> Outcome:
    """Process the messages together, in the thread that calls: all fail, or none."""
    if terms.stop():
        return Outcome(work.done, [], 0.0)
    messages, begin_s = work.messages[work.done :], time.perf_counter()
    try:
        with terms.span(messages) if terms.span else _NO_SPAN as fail:
            return _of_batch(work, _told(listener(messages), fail), terms, begin_s)
    except BaseException as error:  # noqa: BLE001
        return _batch_raised(work, error, terms, begin_s)


async def run_async_batch_listener(listener: AsyncBatchListener, work: Work[MessageView], terms: Terms) -> Outcome:
    """Process the messages together: all fail, or none."""
    if terms.stop():
        return Outcome(work.done, [], 0.0)
    messages, begin_s = work.messages[work.done :], time.perf_counter()
    try:
        with terms.span(messages) if terms.span else _NO_SPAN as fail:
            return _of_batch(work, _told(await listener(messages), fail), terms, begin_s)
    except BaseException as error:
        if _ends_worker(error):
            raise
        return _batch_raised(work, error, terms, begin_s)


def _of_batch(work: Work[MessageView], result: ConsumeResult | None, terms: Terms, begin_s: float) -> Outcome:
    if result is not None and result is not ConsumeResult.SUCCESS:
        return _all_failed(work, _by_result(work.done, result, work.messages[work.done], terms), begin_s)
    work.done = len(work.messages)
    return Outcome(work.done, [], time.perf_counter() - begin_s)


def _batch_raised(work: Work[MessageView], error: BaseException, terms: Terms, begin_s: float) -> Outcome:
    return _all_failed(work, _by_error(work.done, error, work.messages[work.done], terms), begin_s)


def _all_failed(work: Work[MessageView], first: Failed, begin_s: float) -> Outcome:
    count = len(work.messages)
    failed = [first._replace(number=number) for number in range(work.done, count)]
    return Outcome(count, failed, time.perf_counter() - begin_s)
