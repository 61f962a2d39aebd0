"""One queue that a pull consumer reads: one pull ahead of what was polled."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from lakemq.client.consume.fetch import Fetched, fetch
from lakemq.client.consume.gaps import Gaps
from lakemq.client.consume.held_queue import AGAIN_S, AGAIN_S_MAX, PULL_WAIT_S
from lakemq.client.errors import Unreachable
from lakemq.client.failures import wait_of
from lakemq.client.routes import Cluster
from lakemq.model.errors import Busy, OverQuota
from lakemq.model.message_queue import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("lakemq.client")


class PullStream:
    """A queue from the moment it is assigned. `position`: the next offset that a poll returns; None
    until it is known. `processed`: what lies below it was returned by earlier polls.

    `begin` says where to begin; `arrived` is called when there is something for a poll to look at:
    messages, or an `error`.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: MessageQueue,
        params: Mapping[str, str],
        begin: Callable[[], Awaitable[int]],
        arrived: Callable[[], None],
        gaps: Gaps,
    ) -> None:
        self.queue = queue
        self.position: int | None = None
        self.processed: int | None = None
        self.committed: int | None = None
        self.error: Exception | None = None
        self.count_max = 500
        self._paused = False
        self._cluster = cluster
        self._params = params
        self._begin = begin
        self._arrived = arrived
        self._gaps = gaps
        self._found: Fetched | None = None
        self._taken = 0
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._known = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def paused(self) -> bool:
        """Whether polls leave it out."""
        return self._paused

    def pause(self, paused: bool) -> None:
        """Have polls leave it out, or no longer."""
        self._paused = paused
        self._want()

    @property
    def waiting(self) -> int:
        """Messages that a poll would return."""
        return 0 if self._found is None or self._paused else self._found.table.num_rows - self._taken

    async def known_position(self) -> int:
        """The position, once it is known. Raises what keeps it from being had."""
        while self.position is None:
            self._known.clear()
            if self.error is not None:
                raise self.error
            await self._known.wait()
        return self.position

    def take(self, count_max: int) -> pa.Table:
        """The next messages, some that are `waiting`."""
        assert self._found is not None
        part = self._found.table.slice(self._taken, count_max)
        self._taken += part.num_rows
        if self._taken == self._found.table.num_rows:
            self.position = self._found.next_offset
            self._found = None
            self._want()
        else:
            self.position = self._found.table.column("queue_offset")[self._taken].as_py()
        return part

    async def seek(self, offset: int) -> None:
        """Go on there; also if the caller is cancelled, who would be left with a queue that nobody reads."""
        before = self._task
        before.cancel()  # it does nothing more than end
        self.position = self.processed = offset
        self._found = None
        self._known.set()
        self._want()
        self._task = asyncio.create_task(self._run())
        await asyncio.gather(before, return_exceptions=True)

    async def close(self) -> None:
        """Stop pulling."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _want(self) -> None:
        if self._paused or self._found is not None:
            self._wanted.clear()
        else:
            self._wanted.set()

    async def _run(self) -> None:
        wait_s = AGAIN_S
        while True:
            try:
                await self._step()
                wait_s = AGAIN_S
            except Exception as error:  # noqa: BLE001  whatever it is, the next poll raises it
                if not isinstance(error, Unreachable | Busy | OverQuota):
                    self.error = error
                    self._known.set()
                    self._arrived()
                logger.info("can't pull from %s now: %s", self.queue, error)
                await asyncio.sleep(wait_of(error, wait_s))
                wait_s = min(wait_s * 2, AGAIN_S_MAX)

    async def _step(self) -> None:
        if self.position is None:
            self.position = self.processed = self.committed = await self._begin()
            self._known.set()
        await self._wanted.wait()
        found = await fetch(self._cluster, self.queue, self.position, self.count_max, PULL_WAIT_S, self._params)
        self._gaps.note(self.queue, found.holes)
        if found.table.num_rows:
            self._found, self._taken = found, 0
            self._want()
            self._arrived()
            return
        if found.status == "offset_out_of_range":
            self._gaps.note_out_of_range(self.queue, self.position, found.next_offset)
        if self.processed == self.position:
            self.processed = found.next_offset
        self.position = found.next_offset
