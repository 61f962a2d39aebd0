"""Locks of queues at their brokers, so that ordered messages have one consumer at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable

from lakemq.client.consume.group_api import LOCK_S, GroupApi
from lakemq.client.failures import say_failed
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger("lakemq.client")

RENEWED_SHARE = 1 / 3
"""A lock is renewed after this part of its lifetime: 20 s, as RocketMQ's clients do."""
MARGIN = 0.9
"""So much of its time a lock is relied on: clocks differ in speed, and a message takes its time."""
TRY_S = 0.1
TRY_S_MAX = 1.0
"""How long to wait before trying again for a lock that another has."""
HANGS_S = 0.5
"""A broker that hasn't answered for so long is left to itself: the others' locks are taken and renewed meanwhile."""


class Locks:
    """The locks that this client has or wants. `lost` is told of one that was not renewed in time."""

    def __init__(self, api: GroupApi, lost: Callable[[MessageQueue], None]) -> None:
        self._api = api
        self._lost = lost
        self._wanted: dict[MessageQueue, asyncio.Future[None]] = {}
        self._until_s: dict[MessageQueue, float] = {}
        self._lock_s = LOCK_S
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._taking: dict[str, asyncio.Task[None]] = {}
        """What each broker is being asked for."""

    def valid(self, queue: MessageQueue) -> bool:
        """Whether nobody else can have the queue's lock now. May be called in any thread."""
        return time.monotonic() < self._until_s.get(queue, 0.0)

    async def acquire(self, queue: MessageQueue) -> None:
        """Wait until this client has the queue's lock; it is renewed then until `release`."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep())
        wanted = self._wanted[queue] = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            await wanted
        finally:
            self._wanted.pop(queue, None)

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Give locks back, also such as were asked for and may have been granted."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            self._until_s.pop(queue, None)
            by_broker.setdefault(queue.broker, []).append(queue)
        await asyncio.gather(*(self._give_back(broker, part) for broker, part in by_broker.items()))

    async def _give_back(self, broker: str, queues: list[MessageQueue]) -> None:
        try:
            await self._api.unlock(broker, queues)
        except LakemqError as error:
            logger.warning("locks can't be released, and will expire: %s", error)

    async def close(self) -> None:
        """Stop renewing."""
        if self._task is not None:
            tasks = [self._task, *self._taking.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        wait_s = TRY_S
        while True:
            self._news.clear()
            ages = {queue: until_s - time.monotonic() for queue, until_s in self._until_s.items()}
            due_s = self._lock_s * (MARGIN - RENEWED_SHARE)
            due = [queue for queue, left_s in ages.items() if left_s <= due_s]
            by_broker: dict[str, list[MessageQueue]] = {}
            for queue in (*self._wanted, *due):
                by_broker.setdefault(queue.broker, []).append(queue)
            for broker in by_broker.keys() - self._taking.keys():
                self._taking[broker] = asyncio.create_task(self._take(broker, by_broker[broker]))
            if self._taking:
                await asyncio.wait(self._taking.values(), timeout=HANGS_S)
            self._taking = {broker: task for broker, task in self._taking.items() if not task.done()}
            wait_s = min(wait_s * 2, TRY_S_MAX) if self._wanted else TRY_S
            next_due_s = max(min((left - due_s for left in ages.values() if left > due_s), default=due_s), TRY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s if self._wanted or due else next_due_s):
                    await self._news.wait()

    async def _take(self, broker: str, queues: list[MessageQueue]) -> None:
        begin_s = time.monotonic()
        try:
            granted = await self._api.lock(broker, queues)
        except Exception as error:  # noqa: BLE001  whatever it is, the other locks are renewed
            say_failed(logger, error, f"locks of {len(queues)} queues can't be had now")
            return
        self._lock_s = granted.lock_s
        released: list[MessageQueue] = []
        for queue in granted.queues:
            wanted = self._wanted.get(queue)
            if wanted is None and queue not in self._until_s:
                released.append(queue)
                continue
            self._until_s[queue] = begin_s + granted.lock_s * MARGIN
            if wanted is not None and not wanted.done():
                wanted.set_result(None)
        if released:  # while this was under way, so that may have come to the broker first
            await self.release(released)
        for queue in set(queues) - set(granted.queues):
            if self._until_s.pop(queue, None) is not None:
                self._lost(queue)
