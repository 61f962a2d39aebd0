"""Routes of a program's own."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.client.replicas import who_leads
from lakemq.client.route_source import BrokerAddress, Connect, RouteSource, TopicRoute


class GivenSource:
    """A program's own source."""

    def __init__(self, given: RouteSource, connect: Connect) -> None:
        self._given = given
        self._connect = connect

    async def brokers(self) -> Sequence[BrokerAddress]:
        """As the program says."""
        return await self._given.brokers()

    async def route(self, topic: str) -> TopicRoute:
        """As the program says; clients may read and write everything."""
        return TopicRoute(topic, await self._given.routes(topic))

    async def look(self, broker: BrokerAddress) -> BrokerAddress:
        """As the program says now, and the replicas that it names."""
        named = next((each for each in await self._given.brokers() if each.name == broker.name), broker)
        return await who_leads(self._connect, named)

    def learn(self, route: TopicRoute) -> None:
        """The program knows better."""

    async def close(self) -> None:
        """It is the program's."""
