"""A topic that no broker has is made on all of them, so that it doesn't stay on the one that gets its first message."""

from __future__ import annotations

import asyncio
from typing import Any

from lakemq.client.broker_queues import BrokerTopic, read_topic
from lakemq.client.route_source import ASK_TIMEOUT_S, TopicRoute
from lakemq.client.routes import Cluster
from lakemq.contract.routes import PUT_TOPIC
from lakemq.model.errors import LakemqError


class TopicMaker:
    """Makes topics as the first message would. Lives on the event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._making: dict[tuple[str, bool], asyncio.Task[TopicRoute | None]] = {}

    async def make(self, topic: str, alone: bool = False) -> TopicRoute | None:
        """Have each broker that may be written make the topic, those that are down left out; its route then.

        None where there is one broker, which makes it with its first message anyway, unless it is to make it `alone`;
        and where none makes it: then the message itself is told why. Raises `Unreachable` when no broker is known.
        """
        making = self._making.get((topic, alone))
        if making is None:
            making = self._making[topic, alone] = asyncio.ensure_future(self._make(topic, alone))
            making.add_done_callback(lambda made: self._forget((topic, alone), made))
        return await asyncio.shield(making)

    def _forget(self, key: tuple[str, bool], made: asyncio.Task[TopicRoute | None]) -> None:
        self._making.pop(key, None)
        if not made.cancelled():
            made.exception()  # who waits is told; there may be nobody any more

    async def _make(self, topic: str, alone: bool) -> TopicRoute | None:
        brokers = [each.name for each in await self._cluster.brokers() if "w" in each.permission]
        if len(brokers) < 2 and not alone:
            return None
        answers = await asyncio.gather(*(self._make_at(broker, topic) for broker in brokers))
        made = {broker: has for broker, has in zip(brokers, answers, strict=True) if has is not None}
        if not made:
            return None
        queues = [queue for has in made.values() for queue in has.queues]
        route = TopicRoute(topic, queues, {broker: has.permission for broker, has in made.items()})
        self._cluster.learn(route)
        return route

    async def _make_at(self, broker: str, topic: str) -> BrokerTopic | None:
        try:
            primary = self._cluster.primary(broker)
            target = PUT_TOPIC.at(topic)
            answer: Any = (await primary.request(target, params={"auto": "true"}, timeout_s=ASK_TIMEOUT_S)).json()
            return read_topic(topic, broker, answer)
        except LakemqError:
            return None
