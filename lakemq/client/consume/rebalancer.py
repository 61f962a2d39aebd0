"""The assignment of queues to this client, which is computed again on every change of the group, and every 20 s."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from lakemq.client.consume.membership import Membership
from lakemq.client.failures import say_failed
from lakemq.client.routes import Cluster
from lakemq.model.errors import LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.model.rebalance import STRATEGIES, Strategy

logger = logging.getLogger("lakemq.client")

REBALANCE_S = 20.0


Gain = Callable[[Sequence[MessageQueue], bool], Awaitable[None]]
"""These are this client's from now on. The flag: another member may have had them just now."""

Lose = Callable[[Sequence[MessageQueue], bool], Awaitable[None]]
"""These aren't any more. The flag: what was consumed of them may be committed, as the group's offsets
were not moved by anybody else."""


class Holder(NamedTuple):
    """The consumer of the queues. Neither method is called while the other runs, and neither may block for long."""

    gain: Gain
    lose: Lose


class Rebalancer:
    """`topics` are those that the client subscribes to. `strategy` None: it has all queues, whoever
    else is in the group (broadcasting)."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        client_id: str,
        strategy: Strategy | None,
        topics: Callable[[], Iterable[str]],
        holder: Holder,
        follow: Callable[[str, int], None],
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._client_id = client_id
        self._strategy = strategy
        self._topics = topics
        self._holder = holder
        self._follow = follow
        self._wanted = asyncio.Event()
        self._sharing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._members: list[str] = []
        self._resets: dict[str, int] = {}
        self._renewed: set[str] = set()
        self._missing: set[str] = set()
        self.held: set[MessageQueue] = set()

    def trigger(self) -> None:
        """Something has changed: share out soon."""
        self._wanted.set()

    async def renew(self, topic: str) -> None:
        """The subscription to the topic has changed: its queues are released and acquired again."""
        self._renewed.add(topic)
        await self._try()

    async def start(self) -> None:
        """Assign queues for the first time, and keep the assignment current. The client is already a member."""
        self._wanted.clear()
        await self._try()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop changing the assignment. The client keeps the queues it holds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(REBALANCE_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            await self._try()

    async def _try(self) -> None:
        try:
            async with self._sharing:
                await self._rebalance()
        except Exception as error:  # noqa: BLE001  also what a strategy of the user's raises
            say_failed(logger, error, f"the queues of {self._client_id} can't be shared out now")

    async def _rebalance(self) -> None:
        await self._follow_resets()
        renewed, self._renewed = self._renewed, set()
        await self._lose([queue for queue in self.held if queue.topic in renewed], commit=True)
        members = self._membership.members
        # When it isn't the members that changed it may be the queues.
        fresh = members == self._members
        assigned: set[MessageQueue] = set()
        for topic in self._topics():
            if topic in self._missing and not fresh:
                continue
            try:
                queues = await self._cluster.queues(topic, fresh)
                self._missing.discard(topic)
            except TopicNotFound:
                # It is made with its first message, which changes the generation and no member: then
                # it is asked for again.
                self._missing.add(topic)
                continue
            except LakemqError as error:
                logger.warning("can't look up the queues of %s: %s", topic, error)
                assigned |= {queue for queue in self.held if queue.topic == topic}
                continue
            assigned |= set(queues if self._strategy is None else self._strategy(queues, members)[self._client_id])
        first = not self._members
        self._members = members
        lost, gained = sorted(self.held - assigned), sorted(assigned - self.held)
        self.held = assigned
        if lost:
            await self._holder.lose(lost, True)
        if gained:
            await self._holder.gain(gained, self._strategy is not None and (not first or len(members) > 1))
        if lost or gained:
            logger.info("%s has %d queues: %d gained, %d lost", self._client_id, len(assigned), len(gained), len(lost))

    async def _follow_resets(self) -> None:
        for broker in self._membership.take_expired():
            # Others may have consumed from these queues meanwhile: on from where they came to.
            await self._lose([queue for queue in self.held if queue.broker == broker], commit=False)
        for broker, resets in self._membership.resets().items():
            before = self._resets.get(broker)
            self._resets[broker] = resets
            if before is not None and before != resets:
                await self._lose([queue for queue in self.held if queue.broker == broker], commit=False)
            self._follow(broker, resets)

    async def _lose(self, queues: Sequence[MessageQueue], commit: bool) -> None:
        self.held -= set(queues)
        await self._holder.lose(sorted(queues), commit)


def strategy_of(strategy: str | Strategy) -> Strategy:
    """A strategy by its name. Raises `ValueError` for a name of none."""
    if callable(strategy):
        return strategy
    found = STRATEGIES.get(strategy)
    if found is None:
        raise ValueError(f"{strategy!r} is no strategy: there are {', '.join(map(repr, STRATEGIES))}, or a function")
    return found
