"""Which brokers there are, and where a topic's queues lie: what one client knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lakemq.client.address_list import AddressList
from lakemq.client.addresses import Given, find_addresses
from lakemq.client.broker_requests import ToPrimary, ToReader
from lakemq.client.errors import Closed, Unreachable
from lakemq.client.far_reads import FarReads
from lakemq.client.given_source import GivenSource
from lakemq.client.nameservers import NameServers
from lakemq.client.places import Places
from lakemq.client.route_source import (
    FORGET_S,
    REFRESH_S,
    TOPICS_MAX,
    BrokerAddress,
    RouteSource,
    Source,
    TopicRoute,
)
from lakemq.client.transport import Transport
from lakemq.model.errors import InvalidRequest, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.wire.credentials import NOBODY, Credentials

UNUSED_S = 300.0
"""A topic that was not asked for so long is not followed any more."""
CONNECTED_MAX = 64
"""Gateways that a client stays connected to although they are no longer in its routes: their addresses come and go."""


class _Known(NamedTuple):
    route: TopicRoute
    time_s: float


class Cluster:
    """What one client knows of the brokers: their connections, and routes that are fresh enough.

    A route that is 30 s old is still used while it is requested again, so that nobody waits for a broker that doesn't
    answer; a route that is two minutes old is not. Name servers report changes at once. Lives on the event loop of its
    first call. Raises `InvalidRequest` for an invalid address or token.
    """

    def __init__(
        self,
        brokers: Given = None,
        source: RouteSource | None = None,
        nameservers: Given = None,
        token: str | None = None,
    ) -> None:
        self._credentials = Credentials(token)
        self._transports: dict[str, Transport] = {}
        self._closed = False
        self.places = Places(self._look)
        self.far_reads = FarReads(self)
        self._given: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()
        """The name servers, which are shown no token: tokens are for brokers."""
        self._source = self._make_source(brokers, source, nameservers)
        self._brokers_s = float("-inf")
        self._asking_brokers: asyncio.Task[Sequence[BrokerAddress]] | None = None
        self._routes: dict[str, _Known] = {}
        self._used_s: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute]] = {}
        self._followers: list[Callable[[], object]] = []
        self._parting: set[asyncio.Task[None]] = set()

    def _make_source(self, brokers: Given, source: RouteSource | None, nameservers: Given) -> Source:
        if source is not None:
            if nameservers is not None:
                raise InvalidRequest("give nameservers or routes, not both")
            return GivenSource(source, self.connect)
        found = find_addresses(brokers, nameservers)
        self._given = frozenset((*found.brokers, *found.nameservers))
        self._named = frozenset(found.nameservers)
        if found.nameservers:
            return NameServers(found.nameservers, self.connect, self._told)
        return AddressList(found.brokers, self.connect)

    async def brokers(self, fresh: bool = False) -> list[BrokerAddress]:
        """All brokers, one at least. Raises `Unreachable` when none ever answered."""
        if fresh or self._brokers_s == float("-inf"):
            return list(await asyncio.shield(self._ask_brokers()))
        if _now_s() - self._brokers_s > REFRESH_S:
            self._ask_brokers()
        return self.places.all()

    async def queues(self, topic: str, fresh: bool = False) -> list[MessageQueue]:
        """The topic's queues that may be read, sorted; with `fresh` they are asked for.

        Raises `TopicNotFound`, `Unreachable`.
        """
        return (await self.route(topic, fresh)).readable

    async def route(self, topic: str, fresh: bool = False) -> TopicRoute:
        """Where the topic's queues lie; raises as `queues`."""
        known = self._routes.get(topic)
        now_s = self._note_use(topic)
        age_s = float("inf") if known is None else now_s - known.time_s
        if known is None or fresh or age_s > FORGET_S:
            return await asyncio.shield(self._ask(topic))
        if age_s > REFRESH_S:
            self._ask(topic)
        return known.route

    def _note_use(self, topic: str) -> float:
        """The topic is used now, found or not; what was used longest ago makes room."""
        now_s = _now_s()
        self._used_s.pop(topic, None)
        self._used_s[topic] = now_s
        while len(self._used_s) > TOPICS_MAX:
            del self._used_s[next(iter(self._used_s))]
        return now_s

    def known_writers(self, topic: str) -> list[str]:
        """The brokers that are known to take messages of the topic, without asking."""
        known = self._routes.get(topic)
        return [] if known is None else known.route.writers

    def forget(self, topic: str) -> None:
        """The next `queues` asks: something that was answered doesn't fit what is known."""
        self._routes.pop(topic, None)

    def learn(self, route: TopicRoute) -> None:
        """This client has just made the topic, and this is its route."""
        self._source.learn(route)
        self._enter(route)

    def follow(self, changed: Callable[[], object]) -> None:
        """Have it called, on the event loop, when the route of a topic in use is another than it was. Only
        name servers tell."""
        self._followers.append(changed)

    def _told(self, topic: str, route: TopicRoute | None) -> bool:
        """A name server says so; whether it is to go on."""
        used_s = self._used_s.get(topic, float("-inf"))
        if _now_s() - used_s > UNUSED_S:
            self._used_s.pop(topic, None)
            return False
        before = self._routes.get(topic)
        if route is None:
            self.forget(topic)
        else:
            self._enter(route)
        if route != (None if before is None else before.route):
            for changed in self._followers:
                changed()
        return True

    def _enter(self, route: TopicRoute) -> None:
        self._routes.pop(route.topic, None)
        self._routes[route.topic] = _Known(route, _now_s())
        while len(self._routes) > TOPICS_MAX:
            del self._routes[next(iter(self._routes))]
        self.places.put(route.brokers)

    def _ask(self, topic: str) -> asyncio.Task[TopicRoute]:
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._source.route(topic))
            asking.add_done_callback(lambda asked: self._learn(topic, asked))
        return asking

    def _learn(self, topic: str, asked: asyncio.Task[TopicRoute]) -> None:
        self._asking.pop(topic, None)
        if asked.cancelled():
            return
        error = asked.exception()
        if error is None:
            self._enter(asked.result())
        elif isinstance(error, TopicNotFound):
            self.forget(topic)

    def _ask_brokers(self) -> asyncio.Task[Sequence[BrokerAddress]]:
        asking = self._asking_brokers
        if asking is None:
            asking = self._asking_brokers = asyncio.ensure_future(self._find_brokers())
            asking.add_done_callback(self._learn_brokers)
        return asking

    async def _find_brokers(self) -> Sequence[BrokerAddress]:
        found = await self._source.brokers()
        if not found:  # a program's own source may say so: it is asked again with the next question
            raise Unreachable("no broker is known", sent=False)
        return found

    def _learn_brokers(self, asked: asyncio.Task[Sequence[BrokerAddress]]) -> None:
        self._asking_brokers = None
        if not asked.cancelled() and asked.exception() is None:
            self.places.put(asked.result(), whole=True)
            self._brokers_s = _now_s()

    def primary(self, broker: str) -> ToPrimary:
        """By which to ask a broker's primary, wherever that is as it is asked."""
        return ToPrimary(self, broker)

    def reader(self, broker: str) -> ToReader:
        """By which to read at a broker: at a follower, while it has no primary."""
        return ToReader(self, broker)

    def note_reading(self, topic: str) -> None:
        """Messages of the topic are being read. A reader of assigned queues never asks for routes, but has to learn of
        changes nonetheless."""
        if not isinstance(self._source, NameServers):
            return
        now_s = self._note_use(topic)
        known = self._routes.get(topic)
        if known is None or now_s - known.time_s > REFRESH_S:
            self._ask(topic)

    async def find(self, broker: str, settled: bool = True) -> BrokerAddress:
        """Where a broker is; `settled`: once it isn't looked for any more who leads it. Raises `Unreachable` for a name
        that nobody has."""
        found = await self.places.settled(broker) if settled else self.places.get(broker)
        if found is None:
            found = next((each for each in await self.brokers(fresh=True) if each.name == broker), None)
        if found is None:
            raise Unreachable(f"no broker that answers is {broker!r}", sent=False)
        return found

    async def _look(self, broker: BrokerAddress) -> BrokerAddress:
        return await self._source.look(broker)

    async def close(self) -> None:
        """Close all connections, for good: what needs one raises `Closed` from now on."""
        self._closed = True
        asking: list[asyncio.Task[Any]] = list(self._asking.values())
        if self._asking_brokers is not None:
            asking.append(self._asking_brokers)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, *self._parting, return_exceptions=True)
        await self.places.close()
        await self._source.close()
        for transport in self._transports.values():
            await transport.close()

    def connect(self, address: str) -> Transport:
        """The connections to an address: the same ones each time. Raises `Closed`."""
        transport = self._transports.get(address)
        if transport is None:
            if self._closed:
                raise Closed("the client is closed")
            if len(self._transports) > CONNECTED_MAX + len(self.places.all()):
                self._part_from_strangers()
            credentials = NOBODY if address in self._named else self._credentials
            transport = self._transports[address] = Transport(address, credentials=credentials)
        return transport

    def _part_from_strangers(self) -> None:
        known = {address for each in self.places.all() for address in (each.address, *each.followers)}
        for address in self._transports.keys() - known - self._given:
            parting = asyncio.ensure_future(self._transports.pop(address).close())
            self._parting.add(parting)
            parting.add_done_callback(self._parting.discard)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
