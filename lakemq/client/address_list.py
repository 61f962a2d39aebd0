"""Brokers by their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lakemq.client.broker_queues import BrokerQueues
from lakemq.client.route_source import ASK_TIMEOUT_S, BrokerAddress, Connect, TopicRoute
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError


class AddressList:
    """Routes by asking each broker of a list."""

    def __init__(self, addresses: Sequence[str], connect: Connect) -> None:
        self._addresses = addresses
        self._connect = connect
        self._names: dict[str, str] = {}
        self._queues = BrokerQueues(connect)

    async def brokers(self) -> Sequence[BrokerAddress]:
        """Those that have answered once: a name doesn't change."""
        unknown = [address for address in self._addresses if address not in self._names]
        answers = await asyncio.gather(*map(self._ask, unknown))
        for address, answer in zip(unknown, answers, strict=True):
            if not isinstance(answer, LakemqError):
                self._enter(address, str(answer["name"]))
        if not self._names:
            raise next(answer for answer in answers if isinstance(answer, LakemqError))
        return [BrokerAddress(self._names[address], address) for address in self._addresses if address in self._names]

    async def route(self, topic: str) -> TopicRoute:
        """The queues of all brokers that have the topic."""
        return await self._queues.route(topic, await self.brokers())

    def learn(self, route: TopicRoute) -> None:
        """Brokers are asked anyway, and know what they have."""

    async def close(self) -> None:
        """Nothing runs here."""

    def _enter(self, address: str, name: str) -> None:
        for other, taken in self._names.items():
            if taken == name and other != address:  # two may ask an address at once
                raise InvalidRequest(f"{other} and {address} are both broker {name!r}: give each its own broker.name")
        self._names[address] = name

    async def _ask(self, address: str) -> Any:
        try:
            return await self._connect(address).get(routes.BROKER.at(), timeout_s=ASK_TIMEOUT_S)
        except LakemqError as error:
            return error
