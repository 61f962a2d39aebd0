"""Large frames: what of them takes long happens in threads, and one is written at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class WriterThread:
    """The thread that writes large frames, and begins segments. While it does, `running` is a future, and nobody else
    may write."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-writer")
        self._closed = False
        self._done: asyncio.Future[Any] | None = None
        self.running: asyncio.Future[Any] | None = None

    def begin(self, write: Callable[[], Any], then: Callable[[], None]) -> None:
        """`write` in the thread, `then` on the loop, where `result` is what it returned. Nothing once it is closed."""
        if self._closed:
            return
        self.running = asyncio.get_running_loop().run_in_executor(self._thread, write)

        def ended(done: asyncio.Future[Any]) -> None:
            self.running, self._done = None, done
            if not self._closed:
                then()
            self._done = None

        self.running.add_done_callback(ended)

    def result(self) -> Any:
        """What `write` returned. Raises what it raised."""
        assert self._done is not None
        return self._done.result()

    def close(self) -> None:
        """Return when nothing is being written any more; of what was, nobody is told."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
