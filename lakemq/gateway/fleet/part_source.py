"""Where a follower takes parts of sinks from: its primary, by a connection and a thread of their own, as they may be
large, and the log goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from lakemq.gateway.fleet.asking_thread import AskingThread
from lakemq.gateway.fleet.primary import Primary
from lakemq.gateway.fleet.tenure import Elected
from lakemq.settings import Settings
from lakemq.wire.connections import NoAnswer

T = TypeVar("T")


class PartSource:
    """That of one follower."""

    def __init__(self, settings: Settings, elected: Elected | None = None) -> None:
        self._replica = settings.broker.replica
        self._primary = Primary(settings, elected)
        self._thread = AskingThread("parts")
        self._closed = False

    def take(self, token: str, keep: Callable[[Iterable[bytes]], T]) -> asyncio.Future[T]:
        """What `keep` returns of the file of that part, which comes in pieces: it is called in a thread. Raises what it
        does, `NoAnswer` and `LakemqError`."""
        return self._thread.ask(partial(self._take, token, keep))

    def _take(self, token: str, keep: Callable[[Iterable[bytes]], T]) -> T:
        self._primary.greet()
        return keep(self._pieces(token))

    def _pieces(self, token: str) -> Iterator[bytes]:
        for piece in self._primary.part(token, self._replica):
            if self._closed:
                raise NoAnswer("the gateway stops", sent=True)
            yield piece

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        self._thread.close(self._primary.close)
