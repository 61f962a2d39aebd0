"""Consumer groups: the list, one of them, and changing where it goes on."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console import lags, shown
from lakemq.console.lake_life import LOOK_MS_MAX, why_not
from lakemq.console.pages.named import by_name, listed, page_of_names
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import client_routes, routes, waiting_routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.named import OTHER

PAGE_ROWS = 100
QUEUES_SHOWN_MAX = 256
CLIENTS_SHOWN_MAX = 100
RESET_QUEUES_MAX = 64
"""Of a topic that is previewed queue by queue."""
TO = ("earliest", "latest", "timestamp")


async def list_groups(visit: Visit) -> Response:
    """A page of them: those that are furthest behind first where all that match are on it, else by name. The broker
    answers a page at a time, however many there are."""
    if named := by_name(visit, "/groups"):
        return named
    who = await visit.who()
    search, after = visit.field("q"), visit.field("after")
    params: dict[str, str | int] = {"limit": PAGE_ROWS, "contains": search, "after": after}
    answer = await listed(visit, who, Kind.GROUP, routes.GROUPS.at(), params)
    if answer is None:
        return page_of_names(visit, who, Kind.GROUP)
    rows, following = answer["groups"], answer.get("next_after")
    whole = not after and following is None
    if whole:
        rows.sort(key=lambda each: (-(each.get("lag_total") or 0), each["group"]))
    return visit.page("groups.html", rows=rows, search=search, after=after, following=following, whole=whole)


async def show_group(visit: Visit) -> Response:
    """One group; with its lag over time where that is asked for."""
    name, span = visit.path("group"), visit.field("lag")
    who = await visit.who()
    group = await visit.broker.get(routes.GROUP.at(name))
    try:
        clients = await visit.broker.clients(name)
    except LakemqError as error:
        if error.code not in ("forbidden", "group_not_found"):
            raise
        clients = []
    topics = sorted({each["topic"] for each in group["lag"] if not each["topic"].startswith("%")})
    return visit.page(
        "group.html",
        **await now_of(visit, group),
        clients=clients[:CLIENTS_SHOWN_MAX],
        more_clients=max(len(clients) - CLIENTS_SHOWN_MAX, 0),
        topics=[each for each in topics if who.may_on_topic(Action.SUB, each) or who.may_on_topic(Action.GET, each)],
        span=span,
        spans=lags.SPANS,
        past=await _past(visit, group, span) if span else None,
        may_change=who.may_on_group(Action.UPDATE, name),
        may_delete=who.may_on_group(Action.DELETE, name),
        may_query=who.may(Action.SQL, Resource(Kind.LAKE)),
    )


class Past(NamedTuple):
    """A group's lag in a stretch of time, as a chart has it. `said`: why there is none."""

    plot: str = ""
    said: str = ""


async def _past(visit: Visit, group: dict[str, Any], span: str) -> Past:
    name = group["group"]
    ends = {(each["topic"], each["queue_id"]): each["max_offset"] for each in group["lag"]}
    topics = sorted({topic for topic, _ in ends})[: lags.TOPICS_MAX]
    if not topics:
        return Past(said="It has consumed nothing yet.")
    broker = await visit.broker.describe()
    # Times are the broker's own, which says its clock where it lists.
    clock = await visit.broker.get(waiting_routes.TRANSACTIONS.at(), {"group": name, "max": 1})
    times = lags.times_of(span, clock["now_ms"])
    asked = (
        lags.offsets_statement(broker["name"], name, times),
        lags.ends_statement(broker["name"], topics, times),
    )
    try:
        offsets, stored = [await _rows(visit, each) for each in asked]
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        return Past(said=why_not(error))
    plot = lags.plot_of(lags.lag_over_time(offsets, stored, ends), times)
    return Past(plot, "" if plot else "The lake has no commits of this group that you may see.")


async def _rows(visit: Visit, statement: str) -> list[dict[str, Any]]:
    asked = {"statement": statement, "format": "json", "rows_max": lags.ROWS_MAX, "timeout_ms": LOOK_MS_MAX}
    answer = await visit.broker.sql_of_page(json.dumps(asked).encode(), LOOK_MS_MAX / 1000 + 10.0)
    return lags.rows_of(answer.json())


_FIGURES = (
    ("Handed out", "lakemq_group_in_flight"),
    ("In retry", "lakemq_group_retries_waiting"),
    ("Dead letters", "lakemq_group_dead_letters_open"),
)


async def now_of(visit: Visit, group: dict[str, Any]) -> dict[str, Any]:
    """What is kept current of a group: its lag, and the figures that the broker tells this user."""
    queues, look = group["lag"], (await visit.pair()).now
    is_other = group["group"] == OTHER  # told as the sum of all groups beyond the limit
    figures = [(label, None if is_other else look.one(metric, group["group"])) for label, metric in _FIGURES]
    return {
        "figures": [each for each in figures if each[1] is not None],
        "group": group,
        "lags": queues[:QUEUES_SHOWN_MAX],
        "more_lags": max(len(queues) - QUEUES_SHOWN_MAX, 0),
    }


async def preview_reset(visit: Visit) -> Response:
    """What a reset would come to: nothing is changed yet."""
    group, topic, to = visit.path("group"), visit.field("topic"), visit.field("to")
    time_ms = _time_ms(to, visit.field("time"))
    now = {
        each["queue_id"]: each
        for each in (await visit.broker.get(routes.GROUP.at(group)))["lag"]
        if each["topic"] == topic
    }
    queues = (await visit.broker.topic(topic))["queues"]
    rows: list[dict[str, Any]] = []
    for queue in queues[:RESET_QUEUES_MAX]:
        then = await _then(visit, topic, queue, to, time_ms)
        before = now.get(queue["queue_id"], {}).get("offset")
        rows.append(
            {"queue_id": queue["queue_id"], "before": before, "then": then, "lag": max(queue["max_offset"] - then, 0)}
        )
    return visit.page(
        "group_reset.html",
        group=group,
        topic=topic,
        to=to,
        time=visit.field("time"),
        rows=rows,
        more=max(len(queues) - RESET_QUEUES_MAX, 0),
        again=sum(max(each["before"] - each["then"], 0) for each in rows if each["before"] is not None),
        skipped=sum(max(each["then"] - each["before"], 0) for each in rows if each["before"] is not None),
    )


def _time_ms(to: str, text: str) -> int | None:
    if to not in TO:
        raise InvalidRequest(f"to is one of {', '.join(TO)}")
    if to != "timestamp":
        return None
    found = shown.parse_moment(text)
    if found is None:
        raise InvalidRequest(f"write a time as 2026-01-31T12:00:00, in UTC, not as {text[:40]!r}")
    return found


async def _then(visit: Visit, topic: str, queue: dict[str, Any], to: str, time_ms: int | None) -> int:
    if to == "earliest":
        return queue["min_offset"]
    if time_ms is None:
        return queue["max_offset"]
    return await visit.broker.offset_at(topic, queue["queue_id"], time_ms)


async def reset(visit: Visit) -> Response:
    """Move the group's offsets."""
    group, to = visit.path("group"), visit.field("to")
    content: dict[str, Any] = {"topic": visit.field("topic"), "to": to}
    if (time_ms := _time_ms(to, visit.field("time"))) is not None:
        content["timestamp_ms"] = time_ms
    await visit.broker.ask(routes.RESET_OFFSETS.at(group), body=json.dumps(content).encode(), timeout_s=30.0)
    return visit.go(_page_of(group), "reset")


async def enable(visit: Visit) -> Response:
    """Have it consume, or not."""
    group, resumed = visit.path("group"), visit.field("enabled") == "1"
    content = json.dumps({"consume_enabled": resumed}).encode()
    await visit.broker.ask(client_routes.PUT_GROUP.at(group), body=content, timeout_s=30.0)
    return visit.go(_page_of(group), "resumed" if resumed else "paused")


async def ask_pause(visit: Visit) -> Response:
    """Whether that is meant."""
    group = await visit.broker.get(routes.GROUP.at(visit.path("group")))
    return visit.page("group_pause.html", group=group)


async def ask_delete(visit: Visit) -> Response:
    """What goes with it, and whether that is meant."""
    group = await visit.broker.get(routes.GROUP.at(visit.path("group")))
    return visit.page("group_delete.html", group=group, problem="")


async def delete(visit: Visit) -> Response:
    """Delete it, where its name was written."""
    name = visit.path("group")
    if visit.field("name") != name:
        group = await visit.broker.get(routes.GROUP.at(name))
        return visit.page("group_delete.html", 400, group=group, problem="The name doesn't match.")
    await visit.broker.ask(routes.DELETE_GROUP.at(name), timeout_s=30.0)
    return visit.go("/groups", "deleted")


def _page_of(group: str) -> str:
    return f"/groups/{segment(group)}"


ROUTES = (
    ("GET", "/groups", list_groups),
    ("GET", "/groups/{group}", show_group),
    ("GET", "/groups/{group}/reset", preview_reset),
    ("POST", "/groups/{group}/reset", reset),
    ("GET", "/groups/{group}/pause", ask_pause),
    ("POST", "/groups/{group}/enabled", enable),
    ("GET", "/groups/{group}/delete", ask_delete),
    ("POST", "/groups/{group}/delete", delete),
)
