"""Waiting until a process is asked to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from lakemq.model.errors import InvalidRequest
from lakemq.model.stop_signals import stop_signals

logger = logging.getLogger("lakemq.client")


@contextmanager
def asked_to_stop(tell: Callable[[signal.Signals], object]) -> Generator[None, None, None]:
    """Within it `tell` is called with the first signal that asks the process to stop, wherever the main thread is, so
    it may wait for nothing and take no lock; a second one ends the process at once. Raises `InvalidRequest` outside the
    main thread, which alone may handle signals."""
    if threading.current_thread() is not threading.main_thread():
        raise InvalidRequest("run() handles signals, so it belongs in the main thread; elsewhere start and close")
    before = {each: signal.getsignal(each) for each in stop_signals()}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        tell(signal.Signals(number))

    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def say_stopping(group: str, number: signal.Signals, in_hand: int) -> None:
    """Say in the log that the process stops, and what is waited for."""
    logger.info("application %s stops by %s: %d calls of listeners are under way", group, number.name, in_hand)
