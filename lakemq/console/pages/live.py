"""Updates for live pages: the overview and a group's lag every two seconds, a topic's messages as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Broker
from lakemq.console.events import Event, EventStream
from lakemq.console.pages import groups, overview
from lakemq.console.visit import Visit
from lakemq.contract import routes
from lakemq.model.errors import LakemqError

OVERVIEW_S = 2.0
TAILED_QUEUES_MAX = 64
TAIL_WAIT_MS = 20_000
TAIL_BATCH = 20
TAIL_PAUSE_S = 0.5
"""Rows come in batches, at most one in that time: nobody reads faster, and the broker isn't asked more often."""
TAIL_ROWS_MAX = 50
"""Of a batch; what there is beyond that is left out, and said."""


async def follow_overview(visit: Visit) -> Response:
    """The overview, again and again."""
    visit.services.live.check(visit.taker)
    await visit.who()
    return EventStream(_overviews(visit), visit.services.live, visit.taker)


async def _overviews(visit: Visit) -> AsyncIterator[Event]:
    while True:
        values = await overview.values_of(visit)
        shown = values["overview"]
        yield Event("numbers", {"in": shown.messages_in, "out": shown.messages_out, "lag": shown.lag})
        yield Event("page", visit.render("overview_now.html", **values))
        await asyncio.sleep(OVERVIEW_S)


async def follow_group(visit: Visit) -> Response:
    """A group's lag, again and again."""
    visit.services.live.check(visit.taker)
    await visit.who()
    group = await visit.broker.get(routes.GROUP.at(visit.path("group")))
    return EventStream(_lags(visit, group), visit.services.live, visit.taker)


async def _lags(visit: Visit, group: dict[str, Any]) -> AsyncIterator[Event]:
    while True:
        yield Event("numbers", {"lag": group["lag_total"]})
        yield Event("page", visit.render("group_now.html", **await groups.now_of(visit, group)))
        await asyncio.sleep(OVERVIEW_S)
        try:
            group = await visit.broker.get(routes.GROUP.at(visit.path("group")))
        except LakemqError as error:
            yield Event("problem", error.detail)
            return


async def follow_topic(visit: Visit) -> Response:
    """A topic's messages, from now on."""
    visit.services.live.check(visit.taker)
    await visit.who()
    topic = await visit.broker.topic(visit.path("topic"))
    return EventStream(_rows(visit, topic), visit.services.live, visit.taker)


class _Tail:
    """All queues of a topic, each asked by itself. `left_out`: so many were more than anybody reads."""

    def __init__(self, broker: Broker, topic: dict[str, Any]) -> None:
        self._broker = broker
        self._topic = topic["topic"]
        self.rows: list[dict[str, Any]] = []
        self.left_out = 0
        self.some = asyncio.Event()
        self.problem: LakemqError | None = None
        queues = topic["queues"][:TAILED_QUEUES_MAX]
        self.tasks = [asyncio.ensure_future(self._follow(each["queue_id"], each["max_offset"])) for each in queues]

    async def _follow(self, queue_id: int, offset: int) -> None:
        try:
            while True:
                answer = await self._broker.pull(self._topic, queue_id, offset, TAIL_BATCH, TAIL_WAIT_MS)
                offset = answer["next_offset"]
                if answer["messages"]:
                    self._take(answer["messages"])
                    behind = answer["max_offset"] - offset
                    if behind > TAIL_BATCH:  # nobody reads that fast: on with the newest
                        self.left_out += behind - TAIL_BATCH
                        offset = answer["max_offset"] - TAIL_BATCH
                    await asyncio.sleep(TAIL_PAUSE_S)
        except LakemqError as error:
            self.problem = error
            self.some.set()

    def _take(self, messages: list[dict[str, Any]]) -> None:
        self.rows += messages
        if (surplus := len(self.rows) - TAIL_ROWS_MAX) > 0:
            del self.rows[:surplus]
            self.left_out += surplus
        self.some.set()


async def _rows(visit: Visit, topic: dict[str, Any]) -> AsyncIterator[Event]:
    tail = _Tail(visit.broker, topic)
    try:
        yield Event("following", len(tail.tasks))
        while True:
            await tail.some.wait()
            tail.some.clear()
            rows, tail.rows = sorted(tail.rows, key=lambda each: -each["position"]), []
            left_out, tail.left_out = tail.left_out, 0
            if rows:
                yield Event("rows", visit.render("message_rows.html", rows=rows, fresh=True))
            if left_out:
                yield Event("left-out", left_out)
            if tail.problem is not None:
                yield Event("problem", tail.problem.detail)
                return
            await asyncio.sleep(TAIL_PAUSE_S)
    finally:
        for task in tail.tasks:
            task.cancel()
        await asyncio.gather(*tail.tasks, return_exceptions=True)


ROUTES = (
    ("GET", "/live/overview", follow_overview),
    ("GET", "/live/topics/{topic}", follow_topic),
    ("GET", "/live/groups/{group}", follow_group),
)
