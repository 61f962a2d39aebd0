"""What waits: scheduled messages by when they are due, and open transactions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console.pages.transactions import may_end
from lakemq.console.visit import Visit
from lakemq.contract import waiting_routes
from lakemq.contract.route import Route
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest, LakemqError

PAGE_ROWS = 50
BUCKETS = 48
LISTED_S = 30.0
SPANS = (
    ("1h", "the next hour", 3_600_000),
    ("1d", "the next day", 86_400_000),
    ("1w", "the next week", 7 * 86_400_000),
    ("30d", "the next 30 days", 30 * 86_400_000),
    ("all", "all", None),
)
"""What the chart shows: a name in the address, what it is called, and how long."""


async def show(visit: Visit) -> Response:
    """The page."""
    who = await visit.who()
    topic, span = visit.field("topic"), _span(visit.field("span"))
    after, after_half = visit.field("after"), visit.field("after_half")
    wanted: dict[str, str | int] = {"max": PAGE_ROWS} | ({"topic": topic} if topic else {})
    scheduled = await _listed(visit, waiting_routes.SCHEDULED, wanted, after)
    open_ones = await _listed(visit, waiting_routes.TRANSACTIONS, wanted, after_half)
    times = await _times(visit, span)
    rows = scheduled["messages"]
    for each in rows:
        each["may_recall"] = each["recallable"] and who.may_on_topic(Action.PUB, each["topic"])
    return visit.page(
        "waiting.html",
        topic=topic,
        span=span,
        spans=SPANS,
        times=times,
        plot="" if times is None else _plot(times),
        buckets=[] if times is None else _buckets(times),
        rows=rows,
        following=scheduled["next_after"],
        transactions=open_ones["transactions"],
        following_half=open_ones["next_after"],
        after=after,
        after_half=after_half,
        now_ms=scheduled["now_ms"],
        may_match=not topic or (who.may_on_topic(Action.SUB, topic) and who.may_on_topic(Action.PUB, topic)),
        may_end={each["half_id"] for each in open_ones["transactions"] if may_end(who, each)},
    )


async def _listed(visit: Visit, route: Route, wanted: dict[str, str | int], after: str) -> dict[str, Any]:
    return await visit.broker.get(route.at(), wanted | ({"after": after} if after else {}), LISTED_S)


def _span(name: str) -> tuple[str, str, int | None]:
    found = next((each for each in SPANS if each[0] == (name or "1d")), None)
    if found is None:
        raise InvalidRequest(f"span is one of {', '.join(each[0] for each in SPANS)}")
    return found


async def _times(visit: Visit, span: tuple[str, str, int | None]) -> dict[str, Any] | None:
    """How many are due when; None: the broker doesn't tell this user, as it is about all topics."""
    if not (await visit.who()).may_see_cluster:
        return None
    params = {"buckets": BUCKETS}
    if span[2] is not None:
        params["within_ms"] = span[2]
    try:
        return await visit.broker.get(waiting_routes.SCHEDULED_TIMES.at(), params, LISTED_S)
    except LakemqError as error:
        if error.code != "forbidden":
            raise
        return None


class Bucket(NamedTuple):
    """A stretch of time, and how many are due in it."""

    begin_ms: int
    end_ms: int
    messages: int


def _buckets(times: dict[str, Any]) -> list[Bucket]:
    """Those in which any is due."""
    begin, width = times["begin_ms"], times["bucket_ms"]
    return [
        Bucket(begin + at * width, begin + (at + 1) * width, count) for at, count in enumerate(times["counts"]) if count
    ]


def _plot(times: dict[str, Any]) -> str:
    """As a chart has it: each bucket at its middle."""
    if not any(times["counts"]):
        return ""
    begin, width = times["begin_ms"], times["bucket_ms"]
    middles = [(begin + at * width + width / 2) / 1000 for at in range(len(times["counts"]))]
    columns = [
        {"name": "due (UTC)", "kind": "time", "values": middles},
        {"name": "messages", "kind": "number", "values": times["counts"]},
    ]
    return json.dumps(columns)


ROUTES = (("GET", "/waiting", show),)
