"""Routes from name servers: requested once, and then by a long poll, so that the client learns of each change at once.

Each topic in use has its own long poll, so that a client of three topics isn't told about thousands. A client that uses
more than a few topics has a single long poll for everything instead. A topic that nobody has used for a while is no
longer followed.

A name server that has just been started knows no broker yet, and one is gone from it as soon as it
can't be reached. So that neither moves anything, a broker that isn't named any more is asked itself:
it keeps its queues for two minutes unless it says that it has none.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.client.broker_queues import BrokerQueues, BrokerTopic
from lakemq.client.errors import Closed, Unreachable
from lakemq.client.nameserver_answers import NamedRoutes, NamedTopic, read_cluster, read_routes
from lakemq.client.replicas import LOOK_TIMEOUT_S, who_leads
from lakemq.client.route_source import ASK_TIMEOUT_S, FORGET_S, REFRESH_S, BrokerAddress, Connect, TopicRoute
from lakemq.client.transport import Params
from lakemq.contract.nameserver_routes import CLUSTER, ROUTES
from lakemq.contract.route import Target
from lakemq.model.errors import InvalidRequest, InvalidTopic, LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import is_system

logger = logging.getLogger("lakemq.client")

HOLD_S = 25.0
"""How long a long poll is held: what is known is refreshed every 30 s in any case."""
POLLS_MAX = 8
"""Topics with a long poll of their own: past it everything is followed."""
PAUSE_S = 0.05
"""Between two long polls, however quickly they are answered."""
AGAIN_S = 0.5
AGAIN_S_MAX = 5.0
"""How long to wait while no name server answers: longer each time."""
KNOWN_MAX = 10_000
"""Topics and brokers that are remembered."""

Told = Callable[[str, TopicRoute | None], bool]
"""This is the topic's route now; None: it has none. Answers whether the topic is in use still."""


class _Named(NamedTuple):
    """A broker, and when a name server named it last."""

    broker: BrokerAddress
    time_s: float


class _Topic:
    """What is known of a topic. `named_s`: when a name server said last that a broker has it. `answers`
    counts the answers that were taken in hand: an older one doesn't take a newer one's place."""

    __slots__ = ("answers", "named_s", "route", "version")

    def __init__(self) -> None:
        self.version = ""
        self.route: TopicRoute | None = None
        self.named_s: dict[str, float] = {}
        self.answers = 0


class NameServers:
    """A `Source`. Nothing runs before it is first asked; `told` is called for each change of a topic that was asked
    for, and each time that one is confirmed."""

    def __init__(self, addresses: Sequence[str], connect: Connect, told: Told) -> None:
        self._addresses = list(addresses)
        random.shuffle(self._addresses)  # so that clients spread over them
        self._connect = connect
        self._told = told
        self._at = 0
        self._silent = False
        self._closed = False
        self._brokers: dict[str, _Named] = {}
        self._brokers_s = float("-inf")
        self._topics: dict[str, _Topic] = {}
        self._queues = BrokerQueues(connect)
        self._polls: dict[str | None, asyncio.Task[None]] = {}

    async def brokers(self) -> Sequence[BrokerAddress]:
        """All brokers that were named within two minutes; the last ones known while no name server
        answers. Raises `Unreachable` when none ever did, and when there is no broker."""
        try:
            named = read_cluster(await self._ask(CLUSTER.at(), {}, ASK_TIMEOUT_S), self._addresses)
        except LakemqError:
            if not self._brokers:
                raise
        else:
            self._name(named, whole=True)
            self._brokers_s = _now_s()
        if not self._brokers:
            raise Unreachable("the name servers know no broker", sent=False)
        return [each.broker for each in self._brokers.values()]

    async def route(self, topic: str) -> TopicRoute:
        """The topic's route, which is followed from now on; the last one known while no name server
        answers. Topics of the system's are the brokers' own, and asked of these."""
        if is_system(topic):
            return await self._queues.route(topic, await self._known_brokers())
        entry = self._topic(topic)
        try:
            answer = await self._ask(ROUTES.at(), {"topic": topic}, ASK_TIMEOUT_S)
            await self._take(topic, entry, read_routes(answer, (topic,), self._addresses))
        except LakemqError:
            if entry.route is None:
                raise
        self._follow(topic)
        if entry.route is None:
            raise TopicNotFound(f"no broker that the name servers know has topic {topic!r}")
        return entry.route

    async def look(self, broker: BrokerAddress) -> BrokerAddress:
        """As the replicas say that are known, and those that name servers name now."""
        named, found = await asyncio.gather(self._named_now(broker), who_leads(self._connect, broker))
        further = {named.address, *named.followers} - {found.address, *found.followers}
        if not further:
            return found
        return await who_leads(self._connect, found._replace(followers=(*found.followers, *further)))

    async def _named_now(self, broker: BrokerAddress) -> BrokerAddress:
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                return next((each for each in await self.brokers() if each.name == broker.name), broker)
        except (LakemqError, TimeoutError):
            return broker

    def learn(self, route: TopicRoute) -> None:
        """As if a name server had said so just now."""
        entry = self._topic(route.topic)
        entry.route = route
        entry.named_s |= dict.fromkeys((queue.broker for queue in route.queues), _now_s())
        entry.answers += 1
        self._follow(route.topic)

    async def close(self) -> None:
        """Follow nothing more."""
        self._closed = True
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)

    # Asking ------------------------------------------------------------------------------------

    async def _ask(self, target: Target, params: Params, timeout_s: float) -> Any:
        """What the first name server says that answers, from the last one that did on."""
        error: LakemqError | None = None
        for number in range(len(self._addresses)):
            at = (self._at + number) % len(self._addresses)
            try:
                answer = await self._connect(self._addresses[at]).get(target, params, timeout_s)
            except (Closed, InvalidRequest, InvalidTopic):
                raise
            except LakemqError as failed:
                error = failed
                continue
            self._at = at
            self._note_answer()
            return answer
        if error is not None and error.lasting:  # all refuse it, or the last one does: no other name is known
            raise error
        if not self._silent:
            self._silent = True
            logger.warning("no name server answers; the last known routes stay in use: %s", error)
        raise Unreachable(f"no name server answers: {error}", sent=False)

    def _note_answer(self) -> None:
        if self._silent:
            self._silent = False
            logger.warning("name servers answer again")

    async def _known_brokers(self) -> Sequence[BrokerAddress]:
        if _now_s() - self._brokers_s > REFRESH_S:
            return await self.brokers()
        return [each.broker for each in self._brokers.values()]

    # Knowing -----------------------------------------------------------------------------------

    def _topic(self, topic: str) -> _Topic:
        entry = self._topics.get(topic)
        if entry is None:
            entry = self._topics[topic] = _Topic()
            while len(self._topics) > KNOWN_MAX:
                del self._topics[next(iter(self._topics))]
        return entry

    def _name(self, brokers: Iterable[BrokerAddress], whole: bool) -> None:
        """These were named just now. `whole`: with what clients may do there, which routes don't say."""
        now_s = _now_s()
        for broker in brokers:
            before = self._brokers.pop(broker.name, None)
            permission = before.broker.permission if before is not None and not whole else broker.permission
            self._brokers[broker.name] = _Named(broker._replace(permission=permission), now_s)
        old = [name for name, each in self._brokers.items() if now_s - each.time_s > FORGET_S]
        for name in [*old, *list(self._brokers)[:-KNOWN_MAX]]:
            self._brokers.pop(name, None)

    async def _take(self, topic: str, entry: _Topic, named: NamedRoutes) -> None:
        """Have an answer about a topic become what is known of it, unless a later one did meanwhile."""
        entry.answers += 1
        number = entry.answers
        self._name(named.brokers.values(), whole=False)
        now_s = _now_s()
        there = named.topics.get(topic, {})
        entry.named_s = {name: each for name, each in entry.named_s.items() if now_s - each <= FORGET_S}
        entry.named_s |= dict.fromkeys(there, now_s)
        has = {name: _at_broker(topic, name, each) for name, each in there.items()}
        has |= await self._still_there(topic, entry, there)
        if entry.answers != number:
            return
        entry.version = named.version
        entry.route = None
        if has:
            queues = [queue for each in has.values() for queue in each.queues]
            permissions = {name: each.permission for name, each in has.items()}
            addresses = [self._brokers[name].broker for name in sorted(has) if name in self._brokers]
            entry.route = TopicRoute(topic, queues, permissions, addresses)

    async def _still_there(self, topic: str, entry: _Topic, there: Mapping[str, object]) -> dict[str, BrokerTopic]:
        """What brokers have that are known to have the topic and aren't named any more."""
        if entry.route is None:
            return {}
        before: dict[str, list[MessageQueue]] = {}
        for queue in entry.route.queues:
            if queue.broker not in there and queue.broker in entry.named_s:
                before.setdefault(queue.broker, []).append(queue)
        names = [name for name in before if name in self._brokers]
        answers = await asyncio.gather(*(self._queues.ask(topic, self._brokers[name].broker) for name in names))
        has: dict[str, BrokerTopic] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BrokerTopic):
                has[name] = answer
            elif not isinstance(answer, TopicNotFound):
                has[name] = BrokerTopic(before[name], entry.route.permissions.get(name, "rw"))
        return has

    # Following ---------------------------------------------------------------------------------

    def _follow(self, topic: str) -> None:
        if self._closed or None in self._polls or topic in self._polls:
            return
        followed: str | None = topic
        if len(self._polls) >= POLLS_MAX:
            for poll in self._polls.values():
                poll.cancel()
            followed = None
        task = self._polls[followed] = asyncio.ensure_future(self._poll(followed))
        task.add_done_callback(lambda ended: self._forget_poll(followed, ended))

    def _forget_poll(self, followed: str | None, ended: asyncio.Task[None]) -> None:
        if self._polls.get(followed) is ended:
            del self._polls[followed]
        if not ended.cancelled() and (error := ended.exception()) is not None:
            logger.error("the task that follows the routes ended: %r", error)  # it begins again with the next question

    async def _poll(self, followed: str | None) -> None:
        """Ask for what differs from what is known, again and again, while somebody wants it."""
        again_s = AGAIN_S
        version = ""
        while True:
            if followed is not None:
                version = self._topic(followed).version
            params: dict[str, str | int] = {"version": version, "wait_ms": round(HOLD_S * 1000)}
            params |= {} if followed is None else {"topic": followed}
            try:
                answer = await self._ask(ROUTES.at(), params, HOLD_S + ASK_TIMEOUT_S)
                topics = list(self._topics) if followed is None else [followed]
                named = read_routes(answer, frozenset(topics), self._addresses)
            except Closed:
                return
            except LakemqError as error:
                logger.debug("can't follow the routes now: %s", error)
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)
                continue
            again_s, version = AGAIN_S, named.version
            if not await self._tell(topics, named):
                return
            await asyncio.sleep(PAUSE_S)

    async def _tell(self, topics: Sequence[str], named: NamedRoutes) -> bool:
        """Hand on what an answer says; whether any of the topics is in use still. The others are forgotten."""
        entries = {topic: self._topic(topic) for topic in topics}
        await asyncio.gather(*(self._take(topic, entry, named) for topic, entry in entries.items()))
        used = [topic for topic, entry in entries.items() if self._told(topic, entry.route)]
        for topic in entries.keys() - set(used):
            self._topics.pop(topic, None)
        return bool(used)


def _at_broker(topic: str, broker: str, named: NamedTopic) -> BrokerTopic:
    queues = [MessageQueue(topic, broker, queue_id) for queue_id in range(named.queues)]
    return BrokerTopic(queues, named.permission)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
