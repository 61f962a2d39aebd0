"""Which brokers there are, and where a topic's queues lie."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from lakemq.client.errors import Closed, Unreachable
from lakemq.client.transport import Transport
from lakemq.client.wrong_type import WrongType
from lakemq.contract import routes
from lakemq.contract.route import Target
from lakemq.model.environment import BROKER
from lakemq.model.errors import InvalidRequest, LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue as MessageQueue
from lakemq.model.names import check_address

DEFAULT_ADDRESS = "http://127.0.0.1:8080"
REFRESH_S = 30.0
"""How old a route may be."""
FORGET_S = 120.0
"""How long the queues of a broker that doesn't answer stay in the routes."""
ASK_TIMEOUT_S = 3.0
TOPICS_MAX = 10_000
"""Topics whose routes one client remembers: past that the oldest is asked for again."""


class BrokerAddress(NamedTuple):
    """A broker's name, which its message ids begin with, and where it listens."""

    name: str
    address: str


class RouteSource(Protocol):
    """Where routes come from: a list of addresses (`AddressList`), or a name server.

    Its methods are called on the client's event loop.
    """

    async def brokers(self) -> Sequence[BrokerAddress]:
        """All brokers that are known. Raises `Unreachable` when none could be asked."""
        ...

    async def routes(self, topic: str) -> list[MessageQueue]:
        """The topic's queues on all brokers, sorted. Raises `TopicNotFound`, `Unreachable`."""
        ...


Connect = Callable[[str], Transport]
"""The connections to an address: the same ones each time."""


class _Known(NamedTuple):
    queues: list[MessageQueue]
    time_s: float


class AddressList:
    """Routes by asking each broker of a list.

    A broker that doesn't answer keeps the queues that it had, for two minutes: a restart moves
    nothing.
    """

    def __init__(self, addresses: Sequence[str], connect: Connect) -> None:
        self._addresses = addresses
        self._connect = connect
        self._names: dict[str, str] = {}
        self._known: dict[tuple[str, str], _Known] = {}

    async def brokers(self) -> Sequence[BrokerAddress]:
        """Those that have answered once: a name doesn't change."""
        unknown = [address for address in self._addresses if address not in self._names]
        answers = await asyncio.gather(*(self._ask(address, routes.BROKER.at()) for address in unknown))
        for address, answer in zip(unknown, answers, strict=True):
            if not isinstance(answer, LakemqError):
                self._enter(address, str(answer["name"]))
        if not self._names:
            raise next(answer for answer in answers if isinstance(answer, LakemqError))
        return [BrokerAddress(self._names[address], address) for address in self._addresses if address in self._names]

    async def routes(self, topic: str) -> list[MessageQueue]:
        """The queues of all brokers that have the topic."""
        brokers = await self.brokers()
        target = routes.TOPIC.at(topic)
        answers = await asyncio.gather(*(self._ask(broker.address, target) for broker in brokers))
        queues: list[MessageQueue] = []
        errors: list[LakemqError] = []
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, LakemqError):
                errors.append(answer)
                queues += self._remembered(topic, broker.name, answer)
            else:
                queues += self._remember(topic, broker.name, answer)
        if not queues:
            raise next((error for error in errors if isinstance(error, TopicNotFound)), errors[0])
        return sorted(queues)

    def _enter(self, address: str, name: str) -> None:
        for other, taken in self._names.items():
            if taken == name and other != address:  # two may ask an address at once
                raise InvalidRequest(f"{other} and {address} are both broker {name!r}: give each its own broker.name")
        self._names[address] = name

    def _remember(self, topic: str, broker: str, answer: Any) -> list[MessageQueue]:
        queues = [MessageQueue(topic, broker, queue["queue_id"]) for queue in answer["queues"]]
        self._known.pop((topic, broker), None)
        self._known[topic, broker] = _Known(queues, _now_s())
        while len(self._known) > TOPICS_MAX:
            del self._known[next(iter(self._known))]
        return queues

    def _remembered(self, topic: str, broker: str, error: LakemqError) -> list[MessageQueue]:
        known = self._known.get((topic, broker))
        if known is None or isinstance(error, TopicNotFound) or _now_s() - known.time_s > FORGET_S:
            self._known.pop((topic, broker), None)
            return []
        return known.queues

    async def _ask(self, address: str, target: Target) -> Any:
        try:
            return await self._connect(address).get(target, timeout_s=ASK_TIMEOUT_S)
        except LakemqError as error:
            return error


class Cluster:
    """What one client knows of the brokers: their connections, and routes that are fresh enough.

    What is 30 s old is still answered while it is asked for anew, so that nobody waits for a broker that
    doesn't answer; what is two minutes old is not.
    """

    def __init__(self, brokers: str | Sequence[str] | None = None, source: RouteSource | None = None) -> None:
        self._transports: dict[str, Transport] = {}
        self._closed = False
        self._source = source or AddressList(parse_addresses(brokers), self._connect)
        self._brokers: dict[str, BrokerAddress] = {}
        self._brokers_s = float("-inf")
        self._asking_brokers: asyncio.Task[Sequence[BrokerAddress]] | None = None
        self._routes: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[list[MessageQueue]]] = {}

    async def brokers(self, fresh: bool = False) -> list[BrokerAddress]:
        """All brokers. Raises `Unreachable` when none ever answered."""
        if fresh or not self._brokers:
            return list(await asyncio.shield(self._ask_brokers()))
        if _now_s() - self._brokers_s > REFRESH_S:
            self._ask_brokers()
        return list(self._brokers.values())

    async def queues(self, topic: str, fresh: bool = False) -> list[MessageQueue]:
        """The topic's queues, sorted; with `fresh` they are asked for.

        Raises `TopicNotFound`, `Unreachable`.
        """
        known = self._routes.get(topic)
        age_s = float("inf") if known is None else _now_s() - known.time_s
        if known is None or fresh or age_s > FORGET_S:
            return await asyncio.shield(self._ask(topic))
        if age_s > REFRESH_S:
            self._ask(topic)
        return known.queues

    def known_brokers(self, topic: str) -> set[str]:
        """The names of the brokers that are known to have the topic, without asking."""
        known = self._routes.get(topic)
        return set() if known is None else {queue.broker for queue in known.queues}

    def forget(self, topic: str) -> None:
        """The next `queues` asks: something that was answered doesn't fit what is known."""
        self._routes.pop(topic, None)

    def _ask(self, topic: str) -> asyncio.Task[list[MessageQueue]]:
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._source.routes(topic))
            asking.add_done_callback(lambda asked: self._learn(topic, asked))
        return asking

    def _learn(self, topic: str, asked: asyncio.Task[list[MessageQueue]]) -> None:
        self._asking.pop(topic, None)
        if asked.cancelled():
            return
        error = asked.exception()
        if error is None:
            self._routes.pop(topic, None)
            self._routes[topic] = _Known(asked.result(), _now_s())
            while len(self._routes) > TOPICS_MAX:
                del self._routes[next(iter(self._routes))]
        elif isinstance(error, TopicNotFound):
            self.forget(topic)

    def _ask_brokers(self) -> asyncio.Task[Sequence[BrokerAddress]]:
        asking = self._asking_brokers
        if asking is None:
            asking = self._asking_brokers = asyncio.ensure_future(self._source.brokers())
            asking.add_done_callback(self._learn_brokers)
        return asking

    def _learn_brokers(self, asked: asyncio.Task[Sequence[BrokerAddress]]) -> None:
        self._asking_brokers = None
        if not asked.cancelled() and asked.exception() is None:
            self._brokers, self._brokers_s = {broker.name: broker for broker in asked.result()}, _now_s()

    async def transport(self, broker: str) -> Transport:
        """The connections to a broker. Raises `Unreachable` for a name that nobody has."""
        found = self._brokers.get(broker)
        if found is None:
            found = next((each for each in await self.brokers(fresh=True) if each.name == broker), None)
        if found is None:
            raise Unreachable(f"no broker of those that answer is {broker!r}", sent=False)
        return self._connect(found.address)

    async def close(self) -> None:
        """Close all connections, for good: what needs one raises `Closed` from now on."""
        self._closed = True
        asking: list[asyncio.Task[Any]] = list(self._asking.values())
        if self._asking_brokers is not None:
            asking.append(self._asking_brokers)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        for transport in self._transports.values():
            await transport.close()

    def _connect(self, address: str) -> Transport:
        transport = self._transports.get(address)
        if transport is None:
            if self._closed:
                raise Closed("the client is closed")
            transport = self._transports[address] = Transport(address)
        return transport


def parse_addresses(brokers: str | Sequence[str] | None) -> list[str]:
    """Addresses, from a list or a text with commas; by default those of the environment's
    LAKEMQ_BROKER, or this machine's. Raises `InvalidRequest`."""
    given = os.environ.get(BROKER, DEFAULT_ADDRESS) if brokers is None else brokers
    listed = cast("object", given.split(",") if isinstance(given, str) else given)
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in cast("Sequence[object]", listed)):
        raise WrongType("brokers are addresses, in a list or with commas between", given)
    addresses = list(
        dict.fromkeys(address.strip().rstrip("/") for address in cast("Sequence[str]", listed) if address.strip())
    )
    if not addresses:
        raise InvalidRequest("brokers names no address; give one such as http://127.0.0.1:8080")
    return [check_address(address) for address in addresses]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
