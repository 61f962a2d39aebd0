"""Which offsets of a topic's queues are meant: from an offset or a time on, up to another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from lakemq.client.consume.fetch import Bounds, bounds_of_topic, offset_at
from lakemq.client.consume.subscription import to_ms
from lakemq.client.routes import Cluster
from lakemq.client.wrong_type import WrongType
from lakemq.model.message_queue import MessageQueue

Place = int | datetime
"""An offset, of each queue; or a time: the first message that was stored then or after."""


class Span(NamedTuple):
    """Offsets `begin ≤ o < end` of a queue."""

    queue: MessageQueue
    begin: int
    end: int


async def spans_of(cluster: Cluster, topic: str, begin: Place | None, end: Place | None) -> list[Span]:
    """Those of all the topic's queues that have some; without `begin` from the first on, without `end` up to now's
    last. Raises `TopicNotFound`, `WrongType`, `InvalidRequest` for a time without a zone."""
    for place in (begin, end):
        if place is not None and (isinstance(place, bool) or not isinstance(place, int | datetime)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType("a place is an offset, or a datetime", place)
    queues = await cluster.queues(topic, fresh=True)
    bounds = await _bounds(cluster, topic, queues)
    there = [queue for queue in queues if queue in bounds]
    begins = await asyncio.gather(*(_offset(cluster, queue, begin, bounds[queue].begin) for queue in there))
    ends = await asyncio.gather(*(_offset(cluster, queue, end, bounds[queue].end) for queue in there))
    spans = [
        Span(queue, max(first, bounds[queue].begin), min(after, bounds[queue].end))
        for queue, first, after in zip(there, begins, ends, strict=True)
    ]
    return [span for span in spans if span.begin < span.end]


async def _bounds(cluster: Cluster, topic: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Bounds]:
    brokers = sorted({queue.broker for queue in queues})
    found = await asyncio.gather(*(bounds_of_topic(cluster, broker, topic) for broker in brokers))
    return {queue: bounds for of_broker in found for queue, bounds in of_broker.items()}


async def _offset(cluster: Cluster, queue: MessageQueue, place: Place | None, otherwise: int) -> int:
    if isinstance(place, datetime):
        return await offset_at(cluster, queue, to_ms(place))
    return otherwise if place is None else place
