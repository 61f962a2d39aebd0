"""`GET /metrics`: what is by topic and by group is bounded, and looked at in slices; what is said is written in a
thread. One at a time, so that who asks often holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TypeVar

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakemq.gateway.groups.group_numbers import Numbers
from lakemq.gateway.http.in_slices import all_of
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.metrics import BrokerCollector
from lakemq.model.histogram import DURATION_BOUNDS_S
from lakemq.model.named import OTHER, NamedCounts, Told
from lakemq.model.traffic import COUNTS, NUMBERS, Traffic
from lakemq.storage.state.routing_state import UNKNOWN
from lakemq.web.asgi import Client
from lakemq.web.families import counted, families

_TOPIC = ("messages_in", "bytes_in", "messages_out", "bytes_out")
_GROUP = {
    "lakemq_group_members": "members",
    "lakemq_group_paused": "paused",
    "lakemq_group_lag_messages": "lag",
    "lakemq_group_oldest_unconsumed_seconds": "oldest_s",
    "lakemq_group_in_flight": "in_flight",
    "lakemq_group_retries_waiting": "retries_waiting",
    "lakemq_group_dead_letters_open": "dead_letters_open",
}
_COUNTED = ("lakemq_group_retries_total", "lakemq_group_dead_letters_total")
"""As `Numbers.counted`."""
Value = TypeVar("Value")


class _Collected(Collector):
    """What was collected."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """It."""
        yield from self._metrics


class MetricsPage:
    """That of one broker."""

    def __init__(self, broker: Broker) -> None:
        limits = broker.settings.gateway
        self._broker = broker
        self._plain = BrokerCollector(broker)
        self._topics = NamedCounts(NUMBERS, limits.metrics_topics_max)
        self._groups = NamedCounts(len(_COUNTED), limits.metrics_groups_max)

    async def write(self, client: Client) -> bytes:
        """The page, with the values of now. For one at a time. Raises `LogDamaged`, `Busy`."""
        broker = self._broker
        groups = await broker.groups.numbers()
        routing = broker.log.routing
        unknown = Numbers(dead_letters_open=routing.dead_of.count(UNKNOWN, routing.dead))
        there = list(broker.log.topics)
        topics = await all_of((topic.name, topic.traffic) for topic in there if topic.traffic.messages)
        plain = await all_of(await self._plain.collect(client))
        return await asyncio.to_thread(self._written, plain, topics, groups, unknown)

    def _written(
        self, plain: list[Metric], topics: list[tuple[str, Traffic]], groups: dict[str, Numbers], unknown: Numbers
    ) -> bytes:
        """For any thread."""
        ranks = {name: traffic.messages for name, traffic in topics}
        by_topic = self._topics.tell({name: traffic.numbers() for name, traffic in topics}, ranks)
        ranks = {name: each.lag + each.dead_letters_open for name, each in groups.items()}
        by_group = self._groups.tell({name: each.counted for name, each in groups.items()}, ranks)
        rest = [each for name, each in groups.items() if name not in by_group.by_name]
        now = Told({name: groups[name] for name in by_group.by_name}, reduce(Numbers.and_of, rest, unknown), len(rest))
        others = [(("topic",), by_topic.others), (("group",), by_group.others)]
        named = [
            families("lakemq_groups", [((), len(groups))]),
            *_by_topic(by_topic),
            *_of_groups(now),
            *_by_group(by_group),
            families("lakemq_unlabelled", others),
        ]
        return generate_latest(_Collected([*plain, *named]))


def _rows(told: Told[Value]) -> list[tuple[tuple[str], Value]]:
    return [*(((name,), value) for name, value in told.by_name.items()), ((OTHER,), told.other)]


def _by_topic(told: Told[list[float]]) -> Iterator[Metric]:
    rows = _rows(told)
    for number, name in enumerate(_TOPIC):
        yield families(f"lakemq_topic_{name}_total", [(label, numbers[number]) for label, numbers in rows])
    sends = [(label, DURATION_BOUNDS_S, numbers[COUNTS:-1], numbers[-1]) for label, numbers in rows]
    yield counted("lakemq_topic_send_duration_seconds", sends)


def _of_groups(told: Told[Numbers]) -> Iterator[Metric]:
    rows = _rows(told)
    for name, field in _GROUP.items():
        yield families(name, [(label, getattr(numbers, field)) for label, numbers in rows])


def _by_group(told: Told[list[float]]) -> Iterator[Metric]:
    rows = _rows(told)
    for number, name in enumerate(_COUNTED):
        yield families(name, [(label, numbers[number]) for label, numbers in rows])
