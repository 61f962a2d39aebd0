"""Beginning the next segment of a log. Nothing is written meanwhile, and nobody else is held up: the state is copied
step by step on the loop, and made to text and written in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from lakemq.storage.log.segment_store import Begun, SegmentStore
from lakemq.storage.log.writer_thread import WriterThread
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.steps import Steps

SLICE_S = 0.002
"""The loop copies for so long before others have their turn."""


class Rolling:
    """Lives on the log's event loop. While it is `running` nobody else may write."""

    def __init__(
        self,
        store: SegmentStore,
        state: LogState,
        writer: WriterThread,
        flushed: Callable[[], asyncio.Future[None]],
        now_ms: Callable[[], int],
        then: Callable[[OSError | None], object],
    ) -> None:
        """`flushed`: done when all that is written is on disk. `then` is told when a segment has begun, or why not;
        with None too where nothing is to be begun, as the disk has failed."""
        self._store, self._state, self._writer = store, state, writer
        self._flushed, self._now_ms, self._then = flushed, now_ms, then
        self.running = False

    def begin(self) -> None:
        """Begin a segment once all that is written by now is on disk."""
        if not self.running:
            self.running = True
            self._flushed().add_done_callback(self._on_disk)

    def _on_disk(self, done: asyncio.Future[None]) -> None:
        if self._writer.running is not None:  # it isn't, yet
            self._writer.running.add_done_callback(lambda _: self._flushed().add_done_callback(self._on_disk))
        elif done.exception() is not None:
            self._end(None)
        else:
            self._copy(self._state.freeze_in_steps())

    def _copy(self, steps: Steps[Callable[[], dict[str, Any]]]) -> None:
        until_s = time.monotonic() + SLICE_S
        try:
            next(steps)
            while time.monotonic() < until_s:
                next(steps)
        except StopIteration as end:
            index = self._store.active.index
            assert index is not None
            place = index.end_position, self._state.identity.now, end.value, self._now_ms()
            self._writer.begin(partial(self._store.make, *place), self._made)
        except BaseException:
            self.running = False  # a bug: who writes next tries again
            raise
        else:
            asyncio.get_running_loop().call_soon(self._copy, steps)

    def _made(self) -> None:
        try:
            begun: Begun = self._writer.result()
        except OSError as error:
            self._end(error)
            return
        except BaseException:
            self.running = False
            raise
        asyncio.get_running_loop().run_in_executor(None, self._store.go_on_with(begun))
        self._end(None)

    def _end(self, error: OSError | None) -> None:
        self.running = False
        self._then(error)
