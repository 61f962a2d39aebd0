"""One queue that a push consumer holds: pulled from without end, as fast as its messages go."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from lakemq.client.consume.away import Away
from lakemq.client.consume.fetch import FEW, fetch_few, fetch_views
from lakemq.client.consume.gaps import Gaps
from lakemq.client.consume.process_queue import Limits, ProcessQueue, Work
from lakemq.client.errors import Unreachable
from lakemq.client.failures import say_failed, wait_of
from lakemq.client.routes import Cluster
from lakemq.client.view import MessageView
from lakemq.model.errors import ConsumeDisabled, LakemqError, OverQuota
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger("lakemq.client")

PULL_WAIT_S = 15.0
"""How long one long poll takes, as RocketMQ's brokers hold them."""
AGAIN_S = 0.1
AGAIN_S_MAX = 3.0


class HeldQueue:
    """A queue from the moment it is gained until it is lost.

    `begin` is awaited first, and says from which offset; `ready` is called when there are messages to
    be taken; `doubt` when the broker doesn't know the queue.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: MessageQueue,
        limits: Limits,
        params: Mapping[str, str],
        in_order: bool,
        ready: Callable[[HeldQueue], None],
        doubt: Callable[[], None],
        gaps: Gaps,
        away: Away,
        paused: bool,
    ) -> None:
        self.queue = queue
        self.in_order = in_order
        self.process: ProcessQueue[MessageView] | None = None
        self.committed: int | None = None
        self.dropped = False
        self.priority = 0
        """Of its messages, in a topic of priorities: there each queue has one."""
        self.paused = paused
        """Nothing is pulled, and nobody is given what is here, which stays."""
        self._cluster = cluster
        self._limits = limits
        self._params = params
        self._ready = ready
        self._doubt = doubt
        self._gaps = gaps
        self._away = away
        self._few = False
        self._again: deque[Work[MessageView]] = deque()
        self._suspended: set[Work[MessageView]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self, begin: Callable[[], Awaitable[int]]) -> None:
        """Begin to pull."""
        self._task = asyncio.create_task(self._run(begin))

    def drop(self) -> None:
        """Stop pulling. Messages that are being processed are finished."""
        self.dropped = True
        if self._task is not None:
            self._task.cancel()
        if self.process is not None:
            self.process.drop()
            for work in (*self._again, *self._suspended):
                self.process.leave(work)
        self._again.clear()
        self._suspended.clear()

    def pause(self, paused: bool) -> None:
        """Pause the queue, or resume it. The caller then says that it is ready."""
        self.paused = paused
        if not paused and self.process is not None:
            self.process.freed.set()

    async def stopped(self) -> None:
        """Wait until the pulling has ended, after `drop`."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def uncommitted(self) -> int | None:
        """The offset to commit; None when that is done, or nothing is known."""
        if self.process is None:
            return None
        offset = self.process.lowest_unfinished
        return offset if offset != self.committed else None

    @property
    def has_work(self) -> bool:
        """Whether there is something that `take` would give."""
        if self.process is None or self.dropped or self.paused:
            return False
        return bool(self._again) or (self.process.waiting > 0 and (not self.in_order or self.process.quiet.is_set()))

    def take(self, count_max: int) -> Work[MessageView] | None:
        """What to process next: what is to be tried again, or messages that nobody has taken."""
        if not self.has_work or self.process is None:
            return None
        return self._again.popleft() if self._again else self.process.take(count_max)

    def suspend(self, work: Work[MessageView], seconds: float) -> None:
        """Have this work, which nobody works on now, taken again after a while, from its `done` on."""
        assert self.process is not None
        if self.dropped:
            self.process.leave(work)
            return
        self._suspended.add(work)
        asyncio.get_running_loop().call_later(seconds, self._resume, work)

    def _resume(self, work: Work[MessageView]) -> None:
        if work in self._suspended:
            self._suspended.discard(work)
            self._again.append(work)
            self._ready(self)

    async def _run(self, begin: Callable[[], Awaitable[int]]) -> None:
        wait_s = AGAIN_S
        while True:
            failed: Exception
            try:
                if self.process is None:
                    offset = await begin()
                    self.process = ProcessQueue(offset, self._limits)
                    self.committed = offset
                await self._pull(self.process)
                self._away.answered(self.queue.broker)
                wait_s = AGAIN_S
                continue
            except Unreachable as error:
                self._away.note(self.queue.broker, error)
                failed = error
            except ConsumeDisabled as error:
                failed = error  # the membership hears of it, and of its end
            except Exception as error:  # noqa: BLE001  whatever it is, a queue isn't given up
                say_failed(logger, error, f"can't pull from {self.queue} now")
                if isinstance(error, LakemqError) and not isinstance(error, OverQuota):
                    self._doubt()
                failed = error
            await asyncio.sleep(wait_of(failed, wait_s))
            wait_s = min(wait_s * 2, AGAIN_S_MAX)

    async def _pull(self, process: ProcessQueue[MessageView]) -> None:
        while self.paused or not (room := process.room):
            process.freed.clear()
            await process.freed.wait()
        pull = fetch_few if self._few else fetch_views
        found = await pull(self._cluster, self.queue, process.next_offset, room, PULL_WAIT_S, self._params)
        self._few = len(found.messages) < FEW // 2
        if found.status == "offset_out_of_range":
            self._gaps.note_out_of_range(self.queue, process.next_offset, found.next_offset)
        self._gaps.note(self.queue, found.holes)
        if found.messages:
            self.priority = max(self.priority, found.messages[0].priority or 0)
        process.put(found.messages, found.offsets, found.bytes, found.next_offset)
        if process.waiting:
            self._ready(self)
