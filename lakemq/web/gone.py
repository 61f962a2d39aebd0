"""Whether the client of a request has gone, for who holds the request for long."""

from __future__ import annotations

import asyncio
from typing import Protocol

from lakemq.web.asgi import Scope

_GONE = "lakemq.gone"


class Reading(Protocol):
    """A connection's flow."""

    def resume_reading(self) -> None:
        """Take in what comes."""
        ...


class Gone:
    """Of one request. A task that waits for ASGI's `http.disconnect` would cost a long poll a tenth of all."""

    __slots__ = ("_flow", "_told", "happened")

    def __init__(self, flow: Reading) -> None:
        self._flow = flow
        self._told: asyncio.Future[None] | None = None
        self.happened = False

    def happen(self) -> None:
        """The client has gone."""
        self.happened = True
        if self._told is not None:
            finish(self._told)

    @property
    def is_asked(self) -> bool:
        """Whether anybody wants to know."""
        return self._told is not None

    def future(self) -> asyncio.Future[None]:
        """Done when it has happened. Who has gone is noticed by reading, so what comes is taken in from now on; where
        too much has come already, the watch looks."""
        if self._told is None:
            self._told = asyncio.get_running_loop().create_future()
            if self.happened:
                self._told.set_result(None)
        self._flow.resume_reading()
        return self._told


def put_gone(scope: Scope, flow: Reading) -> Gone:
    """Make it a part of a request's scope."""
    scope[_GONE] = gone = Gone(flow)
    return gone


def client_gone(scope: Scope) -> asyncio.Future[None]:
    """Done when the client of the request has gone."""
    gone: Gone = scope[_GONE]
    return gone.future()


def finish(future: asyncio.Future[None], _: object = None) -> None:
    """Wake who waits for the future, unless that happened: by itself, by a timer, or as another future is done."""
    if not future.done():
        future.set_result(None)
