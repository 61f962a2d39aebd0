"""A gateway in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import uvloop

from lakemq.gateway.process.server import serve
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.web.server import Server


class _Running(NamedTuple):
    server: Server
    url: str


def _stop(ready: Future[_Running]) -> None:
    if ready.exception() is None:
        ready.result().server.stop()


class Embedded:
    """A gateway on an event loop of its own. It takes nothing of the process for itself: no signals, no log's form, no
    umask. Raises what `lakemq.gateway.serve` does when it can't start."""

    def __init__(self, settings: Settings, clock: Clock | None = None, files: Files | None = None) -> None:
        self._ready: Future[_Running] = Future()
        self._ended: Future[None] = Future()
        arguments = (settings, self._begin, clock, files)
        self._thread = threading.Thread(target=self._run, args=arguments, name="lakemq gateway", daemon=True)
        self._thread.start()
        try:
            self._server, self.url = self._ready.result()
        except BaseException:  # whoever is interrupted here has nothing to stop it by
            self._ready.add_done_callback(_stop)
            raise

    def _begin(self, server: Server, url: str) -> None:
        self._ready.set_result(_Running(server, url))

    def _run(
        self, settings: Settings, begin: Callable[[Server, str], None], clock: Clock | None, files: Files | None
    ) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve(settings, begin, clock, files))
        except BaseException as error:  # noqa: BLE001  whoever waits in the other thread is told
            (self._ended if self._ready.done() else self._ready).set_exception(error)
        else:
            self._ended.set_result(None)

    def stop(self) -> None:
        """Stop in order: who waits is answered. Raises what the gateway ended of."""
        self._server.stop()
        self._thread.join()
        self._ended.result()
