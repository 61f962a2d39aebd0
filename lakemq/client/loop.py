"""The event loop behind the synchronous clients: one thread for all of a process.

Clients are written once, for asyncio. The synchronous ones hand their calls to this loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from lakemq.client.ended import Ended
from lakemq.client.errors import Closed
from lakemq.client.held import is_held

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
FORKED = "the client was made before this process was forked: make one after the fork"
WRONG_THREAD = "a synchronous client's callback may not wait for the client: use lakemq.client.aio for that"


class BackgroundLoop:
    """An event loop on a daemon thread. It runs until the process ends; in a forked child it doesn't."""

    def __init__(self) -> None:
        self.forked = False
        self._unwaited: set[asyncio.Task[None]] = set()
        self._selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._run, name="lakemq-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:  # `SystemExit` of a callback of a user's ends no client but that user's own
            try:
                return self.loop.run_forever()
            except BaseException:
                logger.exception("a callback on the clients' thread raised what ends programs")

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run it there and wait for its result. Anything that interrupts the wait, such as Ctrl-C or a `TimeoutError`,
        cancels it. Raises `Closed` in a forked child, and as the process ends; `RuntimeError` where the wait could not
        end: on the loop's own thread, and in a signal's handler that has interrupted a producer at the wrong moment.
        """
        try:
            self._check()
            ended = Ended()
        except BaseException:
            coroutine.close()
            raise
        running = list[asyncio.Task[Result]]()
        in_time = False
        try:
            self.loop.call_soon_threadsafe(self._start, coroutine, running, ended)
            in_time = ended.wait(timeout_s)
        finally:
            if not in_time:
                self.loop.call_soon_threadsafe(lambda: [task.cancel() for task in running])
        if not in_time:
            raise TimeoutError
        try:
            return running.pop().result()
        except asyncio.CancelledError:
            raise CancelledError from None

    def _check(self) -> None:
        if self.is_here():
            raise RuntimeError(WRONG_THREAD)
        if sys.is_finalizing():  # its thread runs no more
            raise Closed("the process ends")
        if self.forked:
            raise Closed(FORKED)

    def _start(self, coroutine: Coroutine[Any, Any, Result], running: list[asyncio.Task[Result]], ended: Ended) -> None:
        running.append(self.loop.create_task(coroutine))
        running[0].add_done_callback(lambda _: ended.tell())

    def iterate(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        """What comes out of it there, one by one; it is closed when this is. Raises as `run`."""
        try:
            while True:
                taken = self.run(_next(items))
                if not taken:
                    return
                yield taken[0]
        finally:
            # One that is deleted in the middle of a producer's call can't wait: the loop closes what nobody has.
            if isinstance(items, AsyncGenerator) and not (self.forked or sys.is_finalizing() or is_held()):
                self.run(items.aclose())

    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread: it must not wait for what the loop does."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start it there, and don't wait. Raises `Closed` in a forked child."""
        if self.forked:
            coroutine.close()
            raise Closed(FORKED)
        self.loop.call_soon_threadsafe(self._keep, coroutine)

    def _keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._unwaited.add(task)  # the loop itself keeps none that waits
        task.add_done_callback(self._unwaited.discard)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called there soon. Raises `Closed` in a forked child."""
        if self.forked:
            raise Closed(FORKED)
        self.loop.call_soon_threadsafe(function, *arguments)

    def leave(self) -> None:
        """This is a forked child: the loop is the parent's. The selector is closed, as the child's copy
        would still take connections out of the parent's."""
        self.forked = True
        self._selector.close()


async def uninterrupted(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Do it to its end, even where nobody waits for it any more."""
    return await asyncio.shield(asyncio.ensure_future(work()))


async def _next(items: AsyncIterator[Result]) -> tuple[Result, ...]:
    """The next one; nothing at the end."""
    async for item in items:
        return (item,)
    return ()


_lock = threading.RLock()
_background: BackgroundLoop | None = None
_of_parents: list[BackgroundLoop] = []


def background() -> BackgroundLoop:
    """The process's loop, started when it is first asked for."""
    global _background
    found = _background
    if found is not None:
        return found
    with _lock:
        made = None if _background is not None else BackgroundLoop()
        _background = _background or made  # a handler of a signal may have made one meanwhile
        assert _background is not None
        return _background


def _forget() -> None:
    """A forked child has none of its parent's threads: it starts a loop of its own."""
    global _background, _lock
    if _background is not None:
        _background.leave()
        _of_parents.append(_background)  # one that is deleted would be closed
    _background, _lock = None, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
