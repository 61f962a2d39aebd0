"""Waiting until a process is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from lakemq.model.errors import InvalidRequest
from lakemq.model.stop_signals import stop_signals

logger = logging.getLogger("lakemq.client")


def check_main_thread() -> None:
    """Raises `InvalidRequest` in another thread than the main one, which alone may handle signals."""
    if threading.current_thread() is not threading.main_thread():
        raise InvalidRequest("run() handles signals, so it belongs in the main thread; elsewhere start and close")


@contextmanager
def asked_to_stop() -> Generator[Callable[[], signal.Signals], None, None]:
    """Within it the first signal that asks the process to stop does nothing but end the wait that is given; a second
    one ends the process at once."""
    asked: list[signal.Signals] = []
    before = {each: signal.getsignal(each) for each in stop_signals()}

    def stop(number: int, frame: FrameType | None) -> None:
        _end_by_next(before)
        asked.append(signal.Signals(number))

    # A signal may come in any thread, and wakes no lock that the main thread waits for: but it writes to this.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    for each in before:
        signal.signal(each, stop)

    def wait() -> signal.Signals:
        while not asked:
            reader.recv(4096)
        return asked[0]

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(before_fd)
        _restore(before)
        reader.close()
        writer.close()


@contextmanager
def loop_asked_to_stop() -> Generator[asyncio.Queue[signal.Signals], None, None]:
    """The same on an event loop: the signal comes through the queue."""
    loop, asked = asyncio.get_running_loop(), asyncio.Queue[signal.Signals]()
    before = {each: signal.getsignal(each) for each in stop_signals()}

    def stop(number: signal.Signals) -> None:
        for each in before:
            loop.remove_signal_handler(each)
        _end_by_next(before)
        asked.put_nowait(number)

    for each in before:
        loop.add_signal_handler(each, stop, each)
    try:
        yield asked
    finally:
        for each in before:
            loop.remove_signal_handler(each)
        _restore(before)


def say_stopping(group: str, number: signal.Signals, in_hand: int) -> None:
    """Say in the log that the process stops, and what is waited for."""
    logger.info("application %s stops by %s: %d calls of listeners are under way", group, number.name, in_hand)


def _end_by_next(signals: dict[signal.Signals, _Handler]) -> None:
    for each in signals:
        signal.signal(each, signal.SIG_DFL)


def _restore(handlers: dict[signal.Signals, _Handler]) -> None:
    for each, handler in handlers.items():
        signal.signal(each, handler)


_Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
