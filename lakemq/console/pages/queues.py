"""A topic's queues at all brokers that the console knows, which are asked side by side."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Broker
from lakemq.console.queues import Said, queues_of
from lakemq.console.side_by_side import LATE, side_by_side
from lakemq.console.visit import Visit
from lakemq.contract.limits import NUMBER_MAX, TIMES_MAX
from lakemq.model.access import Action
from lakemq.model.errors import LakemqError

TIMES_S = 2.5
"""So long it may take to tell times, for which it may have to read the lake; then it is asked without."""
_WHY = {
    "topic_not_found": "This broker has no such topic.",
    "forbidden": "You may not see this topic here.",
    "unauthenticated": "This broker doesn't take your token.",
}


async def show_queues(visit: Visit) -> Response:
    """Them, on a page of their own, of which a topic's page takes them."""
    await visit.who()
    topic, begin = visit.path("topic"), visit.number("from", 0, 0, NUMBER_MAX)
    said = await side_by_side(visit.asked.brokers.values(), lambda each: _said(visit, each, topic, begin), _late)
    return visit.page(
        "queues.html",
        name=topic,
        found=queues_of(said, visit.broker.address, begin),
        may_read=(await visit.who()).may_on_topic(Action.SUB, topic),
    )


def _late(broker: Broker) -> Said:
    return Said(broker.address, None, None, LATE)


async def _said(visit: Visit, broker: Broker, topic: str, begin: int) -> Said:
    try:
        if not (await broker.who()).might_see_topic(topic):
            return Said(broker.address, None, None, _WHY["forbidden"])
        found, pair = await asyncio.gather(_topic(broker, topic, begin), visit.watches.pair_of(broker.address))
    except LakemqError as error:
        return Said(broker.address, None, None, _WHY.get(error.code, error.detail))
    return Said(broker.address, pair, found)


async def _topic(broker: Broker, topic: str, begin: int) -> dict[str, Any]:
    try:
        return await broker.topic(topic, TIMES_MAX, TIMES_S, times_from=begin)
    except LakemqError as error:
        if error.code not in ("invalid_request", "unreachable"):
            raise
        return await broker.topic(topic)  # the lake is slow, or the broker of an earlier version, which knows no times


ROUTES = (("GET", "/topics/{topic}/queues", show_queues),)
