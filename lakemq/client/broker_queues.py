"""Which queues brokers have, as they say themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from lakemq.client.errors import Unreachable
from lakemq.client.route_source import (
    ASK_TIMEOUT_S,
    FORGET_S,
    READ_WRITE,
    TOPICS_MAX,
    BrokerAddress,
    Connect,
    TopicRoute,
)
from lakemq.contract import routes
from lakemq.model.errors import LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue


class BrokerTopic(NamedTuple):
    """A topic at one broker."""

    queues: list[MessageQueue]
    permission: str


class _Known(NamedTuple):
    has: BrokerTopic
    time_s: float


class BrokerQueues:
    """Asks brokers for their topics. One that doesn't answer keeps the queues that it had, for two minutes:
    a restart moves nothing."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._known: dict[tuple[str, str], _Known] = {}

    async def route(self, topic: str, brokers: Sequence[BrokerAddress]) -> TopicRoute:
        """The queues of those brokers that have the topic. Raises `TopicNotFound`, `Unreachable`."""
        answers = await asyncio.gather(*(self.ask(topic, broker) for broker in brokers))
        there: dict[str, BrokerTopic] = {}
        errors: list[LakemqError] = []
        for broker, answer in zip(brokers, answers, strict=True):
            if not isinstance(answer, LakemqError):
                there[broker.name] = self._remember(topic, broker.name, answer)
                continue
            errors.append(answer)
            remembered = self._remembered(topic, broker.name, answer)
            if remembered is not None:
                there[broker.name] = remembered
        if not there:
            found_none = (error for error in errors if isinstance(error, TopicNotFound))
            raise next(found_none, errors[0] if errors else Unreachable("there is no broker", sent=False))
        queues = [queue for has in there.values() for queue in has.queues]
        return TopicRoute(topic, queues, {name: has.permission for name, has in there.items()})

    async def ask(self, topic: str, broker: BrokerAddress) -> BrokerTopic | LakemqError:
        """What the broker has of the topic, or why it doesn't say. While it has no primary, its followers say it."""
        failed: LakemqError = Unreachable(f"broker {broker.name!r} has no primary now", sent=False)
        for address in (broker.address,) if broker.address else broker.followers:
            try:
                answer = await self._connect(address).get(routes.TOPIC.at(topic), timeout_s=ASK_TIMEOUT_S)
            except LakemqError as error:
                failed = error
            else:
                return read_topic(topic, broker.name, answer)
        return failed

    def _remember(self, topic: str, broker: str, has: BrokerTopic) -> BrokerTopic:
        self._known.pop((topic, broker), None)
        self._known[topic, broker] = _Known(has, _now_s())
        while len(self._known) > TOPICS_MAX:
            del self._known[next(iter(self._known))]
        return has

    def _remembered(self, topic: str, broker: str, error: LakemqError) -> BrokerTopic | None:
        known = self._known.get((topic, broker))
        if known is None or isinstance(error, TopicNotFound) or _now_s() - known.time_s > FORGET_S:
            self._known.pop((topic, broker), None)
            return None
        return known.has


def read_topic(topic: str, broker: str, answer: Any) -> BrokerTopic:
    """What a broker answers of one topic, asked for it or having made it."""
    queues = [MessageQueue(topic, broker, queue["queue_id"]) for queue in answer["queues"]]
    return BrokerTopic(queues, answer.get("permission", READ_WRITE))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
