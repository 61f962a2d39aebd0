"""Which messages are processed next, how many of them together, and by how many at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from lakemq.client.consume.held_queue import HeldQueue
from lakemq.client.consume.process_queue import Work
from lakemq.client.view import MessageView
from lakemq.model.priority import pick

logger = logging.getLogger("lakemq.client")

TAKE_S = 0.005
"""How long a worker is to be busy with what it takes at once: handing over costs 0.1 ms."""
TAKE_MAX = 256
LESS_SHARE, MORE_SHARE = 0.5, 0.1
WINDOW_S = 0.05
BUSY_SHARE = 0.8
USEFUL_MIN = 2
PATIENCE_S = 0.02
CLOSE_S = 5.0


class Useful:
    """How many workers are of use: only one thread runs Python at a time, and those that wait for it
    make it change hands, which costs as much as a fast listener's work. So while the process is busy
    all the time there are fewer, and more while it isn't and messages wait."""

    def __init__(self, most: int) -> None:
        self.count = float(min(2 * USEFUL_MIN, most))
        self._most = most
        self._begin_s = time.monotonic()
        self._begin_cpu_s = time.process_time()

    def look(self, backlog: bool) -> None:
        """Some work has ended; `backlog`: more waits."""
        now_s = time.monotonic()
        elapsed_s = now_s - self._begin_s
        if elapsed_s < WINDOW_S:
            return
        cpu_s = time.process_time()
        if cpu_s - self._begin_cpu_s > BUSY_SHARE * elapsed_s:
            self.count = max(self.count * 0.7, min(USEFUL_MIN, self._most))
        elif backlog:
            self.count = min(self.count * 1.5, self._most)
        self._begin_s, self._begin_cpu_s = now_s, cpu_s


class Workers:
    """Hands out work of the queues that are ready, in turn or by priority, to `run`, so many at a time.

    `run` returns how many seconds a message took, None where it can't say. A slow listener's messages are
    taken one by one, so that all workers have some; a fast one's by the hundred. `take_max` fixes the number
    for batch listeners.
    """

    def __init__(
        self,
        count: int,
        run: Callable[[HeldQueue, Work[MessageView]], Awaitable[float | None]],
        take_max: int | None = None,
    ) -> None:
        self._count = count
        self._run = run
        self._take_max = take_max
        self._message_s: float | None = None
        self._ready: deque[HeldQueue] = deque()
        self._waiting: set[HeldQueue] = set()
        self._by_priority = False
        self._turn = 0
        self._running: dict[asyncio.Task[None], float] = {}
        self._useful = Useful(count)
        self._later: asyncio.TimerHandle | None = None

    def ready(self, *queues: HeldQueue) -> None:
        """The queues have work, it may be."""
        for held in queues:
            self._by_priority = self._by_priority or held.priority > 0
            if held not in self._waiting and held.has_work:
                self._waiting.add(held)
                self._ready.append(held)
        self._hand_out()

    @property
    def called_from_one(self) -> bool:
        """Whether it is a worker that asks."""
        return asyncio.current_task() in self._running

    async def close(self) -> None:
        """Cancel what runs, and wait for it, 5 s at most: a listener may ignore it."""
        if self._later is not None:
            self._later.cancel()
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=CLOSE_S)

    def _hand_out(self) -> None:
        while self._ready and self._is_free():
            held = self._next() if self._by_priority else self._ready.popleft()
            self._waiting.discard(held)
            work = held.take(self._take_count())
            if work is None:
                continue
            if held.has_work:
                self._waiting.add(held)
                self._ready.append(held)
            task = asyncio.create_task(self._work(held, work))
            self._running[task] = time.monotonic()

    def _next(self) -> HeldQueue:
        """The queue whose turn it is by priority; it is no longer one of those that are ready."""
        at = pick([each.priority for each in self._ready], self._turn)
        self._turn += 1
        held = self._ready[at]
        del self._ready[at]
        return held

    def _is_free(self) -> bool:
        """Whether another worker is to begin. One that is at it for long waits for something: it is not
        counted among those that are of use."""
        if len(self._running) >= self._count:
            return False
        useful = int(self._useful.count)
        if len(self._running) < useful:
            return True
        long_ago_s = time.monotonic() - PATIENCE_S
        if sum(begin_s > long_ago_s for begin_s in self._running.values()) < useful:
            return True
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(PATIENCE_S, self._look_again)
        return False

    def _look_again(self) -> None:
        self._later = None
        self._hand_out()

    def _take_count(self) -> int:
        if self._take_max is not None:
            return self._take_max
        if self._message_s is None:
            return 1
        return min(max(int(TAKE_S / self._message_s), 1), TAKE_MAX)

    async def _work(self, held: HeldQueue, work: Work[MessageView]) -> None:
        try:
            seconds = await self._run(held, work)
            if seconds is not None:
                self._learn(seconds)
        except Exception:
            logger.exception("can't finish messages of %s; retrying them", held.queue)
            held.suspend(work, 1.0)
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._running.pop(task, None)
        self._useful.look(bool(self._ready) or held.has_work)
        self.ready(held)

    def _learn(self, message_s: float) -> None:
        """What a message takes. What threads take from one another only ever makes it more, so less is
        believed sooner."""
        before = self._message_s
        share = 1.0 if before is None else LESS_SHARE if message_s < before else MORE_SHARE
        self._message_s = max((before or 0.0) * (1 - share) + message_s * share, 1e-7)
