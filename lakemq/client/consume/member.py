"""What consumers of a group have in common: their names, subscriptions, membership and queues."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lakemq.client.client_id import default_client_id, describe_self
from lakemq.client.consume.gaps import Gaps, OnGap
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.membership import Last, Membership
from lakemq.client.consume.offset_store import BrokerOffsets, LocalOffsets, OffsetStore, offset_files
from lakemq.client.consume.rebalancer import Holder, Rebalancer, strategy_of
from lakemq.client.consume.start_offset import Beginnings
from lakemq.client.consume.subscription import (
    ConsumeFrom,
    Subscription,
    check_consume_from,
    describe_consume_from,
    make_subscription,
)
from lakemq.client.outgoing import check_group
from lakemq.client.route_source import RouteSource
from lakemq.client.routes import Cluster
from lakemq.model.errors import GroupNotFound, InvalidRequest, LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import retry_topic
from lakemq.model.rebalance import Strategy

logger = logging.getLogger("lakemq.client")

Model = Literal["clustering", "broadcasting"]
COMMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """How a client takes part in its group; what each means is said where a consumer is made."""

    brokers: str | Sequence[str] | None = None
    nameservers: str | Sequence[str] | None = None
    routes: RouteSource | None = None
    model: Model = "clustering"
    consume_from: ConsumeFrom = "last"
    strategy: str | Strategy = "averagely"
    client_id: str | None = None
    offset_file: str | os.PathLike[str] | None = None
    on_gap: OnGap | None = None
    token: str | None = field(default=None, repr=False)


class Member:
    """One client in its group. Raises `InvalidRequest`, `ValueError` for options that don't fit."""

    def __init__(self, group: str, options: MemberOptions, holder: Holder, retries: bool) -> None:
        self.group = check_group(group)
        self.broadcasting = options.model == "broadcasting"
        if options.model not in ("clustering", "broadcasting"):
            raise InvalidRequest(f"model is 'clustering' or 'broadcasting', not {options.model!r}")
        self.client_id = options.client_id or default_client_id()
        self.gaps = Gaps(options.on_gap)
        self._consume_from: ConsumeFrom = check_consume_from(options.consume_from)
        self._model = options.model
        self.cluster = Cluster(options.brokers, options.routes, options.nameservers, options.token)
        self.api = GroupApi(self.cluster, group, self.client_id)
        self.subscriptions: dict[str, Subscription] = {}
        if retries and not self.broadcasting:
            topic = retry_topic(group)
            self.subscriptions[topic] = Subscription(topic)
        self.membership = Membership(self.api, self._describe, self._changed)
        strategy = None if self.broadcasting else strategy_of(options.strategy)
        follow = self._follow
        self.rebalancer = Rebalancer(
            self.cluster, self.membership, self.client_id, strategy, lambda: list(self.subscriptions), holder, follow
        )
        self._beginnings = Beginnings(self.cluster, self._consume_from)
        self.offsets = self._make_offsets(options)
        self.status: Callable[[str], dict[str, Any]] = lambda broker: {}
        """How this client is, at that broker."""
        self.started = False
        self.cluster.follow(self._routes_changed)

    def _make_offsets(self, options: MemberOptions) -> OffsetStore:
        if not self.broadcasting:
            return BrokerOffsets(self.api, self._beginnings)
        given = options.offset_file
        paths = offset_files(self.group, options.client_id) if given is None else [Path(given)]
        return LocalOffsets(paths, self._beginnings)

    def _describe(self, broker: str) -> dict[str, Any]:
        subscriptions = [each.describe() for each in self.subscriptions.values()]
        said = {"model": self._model, "subscriptions": subscriptions, **describe_consume_from(self._consume_from)}
        return {**said, "client": describe_self(**self.status(broker))}

    def _changed(self) -> None:
        self.rebalancer.trigger()

    def _routes_changed(self) -> None:
        if self.started:
            self.membership.meet()
            self.rebalancer.trigger()

    def _follow(self, broker: str, resets: int) -> None:
        if isinstance(self.offsets, BrokerOffsets):
            self.offsets.note_resets(broker, resets)

    async def follow_resets(self, brokers: Iterable[str]) -> None:
        """What is stored from now on counts until the group's offsets are reset there once more."""
        for broker in brokers:
            try:
                resets = (await self.api.wait_members(broker, 0, 0.0)).resets
            except GroupNotFound:
                resets = 0
            if resets is not None:
                self._follow(broker, resets)

    async def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Subscribe, or change a subscription. What the broker has against it is raised here when the
        client is started, else by `start`: `InvalidFilter` says where in the expression."""
        before = self.subscriptions.get(topic)
        self.subscriptions[topic] = make_subscription(topic, tags, sql)
        if self.started and before != self.subscriptions[topic]:
            try:
                await self.membership.beat()
            except BaseException:
                self._set_back(topic, before)
                raise
            await self.settle(topic)
            await self.rebalancer.renew(topic)

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming the topic."""
        if self.subscriptions.pop(topic, None) is not None and self.started:
            await self.membership.beat()
            await self.rebalancer.renew(topic)

    def _set_back(self, topic: str, before: Subscription | None) -> None:
        if before is None:
            del self.subscriptions[topic]
        else:
            self.subscriptions[topic] = before

    async def start(self) -> None:
        """Join the group and take its queues' share; raises as `Membership.start`. It can be tried again then."""
        self.offsets.open()
        self.started = True
        try:
            await self.membership.start()
            await asyncio.gather(*map(self.settle, list(self.subscriptions)))
            await self.rebalancer.start()
        except BaseException:
            self.started = False
            await self.membership.stop()
            raise

    async def settle(self, topic: str) -> None:
        """See to it that what is produced from now on is consumed: where the group has no offsets of the
        topic yet, they are stored before this returns."""
        brokers = {broker.name for broker in await self.cluster.brokers()}
        try:
            queues = {queue.broker: queue for queue in await self.cluster.queues(topic, fresh=True)}
        except LakemqError as error:
            queues: dict[str, MessageQueue] = {}
            if not isinstance(error, TopicNotFound):
                logger.warning("can't look up the queues of %s: %s", topic, error)
                return
        self._beginnings.absent |= {(broker, topic) for broker in brokers - set(queues)}
        try:
            new = await self.offsets.is_new(topic)
        except (LakemqError, OSError):
            new = False  # it isn't known, and loading says why
        # One queue of each broker: that has all the topic's queues there begin. Together, so that another member that
        # starts now hardly finds the group at some brokers only.
        loads = [self.offsets.load(queue, new) for queue in queues.values()]
        for queue, result in zip(queues.values(), await asyncio.gather(*loads, return_exceptions=True), strict=True):
            if isinstance(result, LakemqError | OSError):
                logger.warning("can't store the offset of %s yet: %s", queue, result)
            elif isinstance(result, BaseException):
                raise result

    async def begin(self, queues: Collection[MessageQueue]) -> None:
        """See to it that the group has offsets of these queues. Raises `LakemqError`, `OSError`."""
        topics = sorted({queue.topic for queue in queues})
        new = dict(zip(topics, await asyncio.gather(*map(self.offsets.is_new, topics)), strict=True))
        await asyncio.gather(*(self.offsets.load(queue, new[queue.topic]) for queue in queues))

    async def leave(self, brokers: Iterable[str], last: Last, leaves: bool = True) -> None:
        """Say that this client is gone, once `last` has stored its offsets at each broker; as `Membership.close`."""
        try:
            await self.membership.close(brokers, last, leaves)
        finally:
            self.offsets.close()

    def may_commit(self, queue: MessageQueue) -> bool:
        """Whether nobody else can have committed offsets of the queue since this client has it."""
        return self.broadcasting or not self.started or self.membership.is_sure(queue.broker)

    def subscription_of(self, queue: MessageQueue) -> Subscription:
        """What is wanted of the queue."""
        return self.subscriptions.get(queue.topic) or Subscription(queue.topic)


async def every(seconds: float, what: Any) -> None:
    """Await `what()` again and again, so many seconds after it has ended."""
    while True:
        await asyncio.sleep(seconds)
        await what()
