"""Turns for TLS handshakes: each costs the one loop as much as many requests do, and any stranger may ask for one."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from lakemq.web.counters import WebCounters

TURN_S = 0.002
"""So long handshakes may take in one turn of the loop before everything else is looked after; one is made always."""
SAID_S = 10.0
"""Failed ones are logged so often at most."""

logger = logging.getLogger(__name__)


class Greeting(Protocol):
    """A connection that wants to go on with its handshake."""

    def shake(self) -> None:
        """Go on, as far as what has come goes."""
        ...


class Handshakes:
    """Those of one server. Who came first goes on first; how long one may take is the connections' own matter
    (`watch.Watch`)."""

    def __init__(self, counters: WebCounters, clock: Callable[[], float]) -> None:
        self._counters = counters
        self._clock = clock
        self._waiting: OrderedDict[Greeting, None] = OrderedDict()
        self._scheduled = False
        self._said_s: float | None = None
        self._unsaid = 0

    def add(self, connection: Greeting) -> None:
        """Let it go on when it is its turn."""
        self._waiting[connection] = None
        self._schedule()

    def remove(self, connection: Greeting) -> None:
        """It doesn't want to go on any more."""
        self._waiting.pop(connection, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        began_s = self._clock()
        try:
            while self._waiting:
                self._waiting.popitem(last=False)[0].shake()
                if self._clock() - began_s >= TURN_S:
                    break
        finally:
            if self._waiting:
                self._schedule()

    def failed(self, client: str | None, reason: str) -> None:
        """One came to nothing."""
        self._counters.handshakes_failed += 1
        self._say(f"no TLS with {client or 'a client'}: {reason}")

    def cut(self, client: str | None) -> None:
        """One was over, and its client went on with what is no data."""
        self._counters.cut += 1
        self._say(f"TLS with {client or 'a client'} is cut: more records without data than anybody needs")

    def _say(self, line: str) -> None:
        now = self._clock()
        if self._said_s is not None and now - self._said_s < SAID_S:
            self._unsaid += 1
            return
        more = f", and {self._unsaid} others since the last of these lines" if self._unsaid else ""
        self._said_s, self._unsaid = now, 0
        logger.warning("%s%s", line, more)
