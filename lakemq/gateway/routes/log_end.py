"""How far a reader of the log may go, and waiting for it to be further.

A reader may keep what it reads for good, so it must not learn of what a power loss could undo, or a switch: it goes as
far as the log is confirmed. Followers go as far as it is on this disk, as that is how it comes to be confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakemq.gateway.work.run import Run
from lakemq.gateway.work.waiters import Waiters
from lakemq.model.errors import StoreUnwritable
from lakemq.storage.read.store import Store
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue

OTHERS_S_MAX = 1.0
"""So long a reader that waits for nothing waits for what was written to be confirmed: a moment, mostly."""


class LogEnd:
    """The end of subscriptions of one broker's log. A subscription is a set of topics; None: all. `timer_ms`: when the
    timer of that name is due first."""

    def __init__(self, name: str, store: Store, waiters: Waiters, timer_ms: Callable[[str], int | None]) -> None:
        self._name = name
        self._log = store.log
        self.plans = store.plans
        self._waiters = waiters
        self.timer_ms = timer_ms

    async def flushed_position(self) -> int:
        """How far the log is on disk here, after a flush of what was written."""
        with suppress(StoreUnwritable):
            await self._log.flushed()
        return self._log.flushed_position

    async def confirmed_position(self) -> int:
        """How far the log is confirmed, after a flush of what was written; other replicas are waited for a moment."""
        log, confirmed = self._log, self._log.confirmed
        flushed = await self.flushed_position()
        deadline = asyncio.get_running_loop().time() + OTHERS_S_MAX
        while confirmed.position < flushed and log.flusher.failure is None and not self._waiters.stopping:
            confirmed.ask(flushed)
            seconds = seconds_until(deadline)
            if seconds <= 0:
                break
            await self._waiters.wait_for_any([confirmed], seconds)
        return confirmed.position

    async def up_to(self, to: int) -> int:
        """That position, or how far the log is confirmed."""
        return to if to <= self._log.confirmed_position else min(to, await self.confirmed_position())

    def queues_of(self, wanted: set[str] | None) -> list[Queue]:
        """The subscription's queues."""
        return [queue for queue in self._log.topics.all_queues() if wanted is None or queue.topic in wanted]

    async def reached(self, start: int, wanted: set[str] | None, messages_max: int | None, run: Run) -> int:
        """How far the subscription goes from `start` on, with at most so many messages. What takes long, `run` carries
        out. Nothing is awaited after the log was looked at, unless it goes on from `start`: who waits then misses
        nothing."""
        end_now = None if wanted is None else await self.plans.end_of(wanted, start, run)
        confirmed = max(start, await self.confirmed_position())
        reached = confirmed if end_now is None else min(confirmed, end_now())
        if messages_max is None or reached - start <= messages_max:
            return reached
        return await self.plans.limit(wanted, start, reached, messages_max, run)

    async def wait(self, wanted: set[str] | None, timer_ms: int | None, seconds: float) -> bool:
        """Until something may have arrived, the timer is due or the time is over; whether it is
        worth looking again."""
        if timer_ms is not None:
            seconds = min(seconds, (timer_ms - self._log.now_ms()) / 1000)
        if seconds <= 0 or self._waiters.stopping:
            return False
        # A topic of the subscription may come to be: that is a record in the topics' topic.
        queues = [*self.queues_of(wanted), self._log.topics.queue(TOPICS_TOPIC, 0)]
        behind = [self._log.confirmed] if self._log.confirmed_position < self._log.flushed_position else []
        await self._waiters.wait_for_any([*queues, *behind], seconds)
        return True

    async def wait_to_send(self, seconds: float) -> bool:
        """`wait`, of a follower: until there may be more to send, to ask for or to tell."""
        if seconds <= 0 or self._waiters.stopping:
            return False
        confirmed = self._log.confirmed
        await self._waiters.wait_for_any([*self._log.topics.all_queues(), confirmed, confirmed.asked], seconds)
        return True

    def describe(self, reached: int, timer_ms: int | None) -> dict[str, Any]:
        """The answer to who asked."""
        return {
            "broker": self._name,
            "log_id": self._log.identity.log_id,
            "begin_position": self._log.min_position,
            "end_position": reached,
            "clock_ms": self._log.now_ms(),
            "timer_ms": timer_ms,
        }


def seconds_until(deadline: float) -> float:
    """The seconds left until a time of the event loop's clock."""
    return deadline - asyncio.get_running_loop().time()
