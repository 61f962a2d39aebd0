"""Listeners that take too long: their messages are given up, so that a listener that hangs doesn't block an offset
forever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from lakemq.client.consume.held_queue import HeldQueue
from lakemq.client.consume.listener import Call
from lakemq.client.consume.process_queue import Work
from lakemq.client.view import MessageView

logger = logging.getLogger("lakemq.client")

LOOKS = 20
"""In so many parts of the time-out it is looked whether a call has gone on to its next message: a call reads no clock
for each message, and takes up to one part longer until it is given up."""
LOOK_S_MIN, LOOK_S_MAX = 0.05, 10.0


@dataclass(eq=False, slots=True)
class Running:
    """One worker's call, and since when it has the message that it was last seen with. `task`: the worker's."""

    held: HeldQueue
    work: Work[MessageView]
    call: Call
    task: asyncio.Task[None] | None
    number: int
    since_s: float


class Overdue:
    """Watches calls. `give_up` is called once of each that has one message, or one batch, for longer than `timeout_s`
    (None: never). `workers`: so many calls there may be."""

    def __init__(self, timeout_s: float | None, workers: int, give_up: Callable[[Running], None]) -> None:
        self._timeout_s = timeout_s
        self._workers = workers
        self._give_up = give_up
        self._running: set[Running] = set()
        self._task: asyncio.Task[None] | None = None
        self.stuck = 0
        """So many calls were given up and haven't returned: each takes a worker's place."""

    def start(self) -> None:
        """Begin to watch."""
        if self._timeout_s is not None:
            self._task = asyncio.create_task(self._watch(self._timeout_s))

    def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    def begin(self, held: HeldQueue, work: Work[MessageView], call: Call) -> Running:
        """A worker begins with it."""
        call.number = work.done
        now_s = asyncio.get_running_loop().time()
        running = Running(held, work, call, asyncio.current_task(), work.done, now_s)
        self._running.add(running)
        return running

    def end(self, running: Running) -> None:
        """It has returned, with whatever, or was cancelled."""
        self._running.discard(running)
        self.stuck -= running.call.given_up

    async def _watch(self, timeout_s: float) -> None:
        while True:
            await asyncio.sleep(min(max(timeout_s / LOOKS, LOOK_S_MIN), LOOK_S_MAX))
            now_s = asyncio.get_running_loop().time()
            for running in [each for each in self._running if not each.call.given_up]:
                self._look(running, now_s, timeout_s)

    def _look(self, running: Running, now_s: float, timeout_s: float) -> None:
        number = running.call.number
        if number != running.number:
            running.number, running.since_s = number, now_s
        elif now_s - running.since_s >= timeout_s and running.work.lowest_unfinished is not None:
            running.call.given_up = True
            self.stuck += 1
            self._give_up(running)
            if self.stuck >= self._workers:
                logger.error(
                    "all %d concurrent calls of the listener take longer than %g s: nothing is consumed until "
                    "one of them returns",
                    self._workers,
                    timeout_s,
                )
