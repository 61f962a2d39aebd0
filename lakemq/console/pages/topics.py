"""Topics: the list, one of them, and changing it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.responses import Response

from lakemq.console.looks import Pair
from lakemq.console.pages.named import by_name, listed, page_of_names
from lakemq.console.pages.schemas import current_of, sql_link
from lakemq.console.queues import Said, queues_of
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import find_routes, routes
from lakemq.contract.kept import kept_in
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.names import is_system
from lakemq.model.topic_config import MESSAGE_TYPES

PAGE_ROWS = 50
_FIELDS = ("name", "queues", "permission", "message_type", "ttl_ms", "message_bytes_max")


async def list_topics(visit: Visit) -> Response:
    """So many of them a page, by name: the broker answers a page at a time, however many there are."""
    if named := by_name(visit, "/topics"):
        return named
    who = await visit.who()
    search, after, system = visit.field("q"), visit.field("after"), visit.field("system") == "1"
    params: dict[str, str | int] = {"limit": PAGE_ROWS, "contains": search, "after": after}
    if system:
        params["system"] = "true"
    may_create = who.may_some(Action.CREATE, Kind.TOPIC)
    answer, pair = await asyncio.gather(listed(visit, who, Kind.TOPIC, routes.TOPICS.at(), params), visit.pair())
    if answer is None:
        return page_of_names(visit, who, Kind.TOPIC, may_create)
    return visit.page(
        "topics.html",
        rows=[_row(each, pair) for each in answer["topics"]],
        search=search,
        system=system,
        after=after,
        following=answer.get("next_after"),
        all_topics=pair.now.one("lakemq_topics"),
        may_create=may_create,
        may_send=who.may_some(Action.PUB, Kind.TOPIC),
    )


def _figures(topic: dict[str, Any]) -> dict[str, Any]:
    queues = topic["queues"]
    return {
        "name": topic["topic"],
        "queues": len(queues),
        "permission": topic.get("permission", "rw"),
        "messages": sum(map(kept_in, queues)),
        "ever": sum(each["max_offset"] for each in queues),
    }


def _row(topic: dict[str, Any], pair: Pair) -> dict[str, Any]:
    name = topic["topic"]
    return _figures(topic) | {
        "rate_in": pair.rate("lakemq_topic_messages_in_total", name),
        "rate_out": pair.rate("lakemq_topic_messages_out_total", name),
        "bytes_in": pair.rate("lakemq_topic_bytes_in_total", name),
    }


async def show_topic(visit: Visit) -> Response:
    """One topic: how it is set up, who uses it, and its queues at this broker; a script loads those at all others, and
    since when each has messages, which may take longer."""
    name = visit.path("topic")
    who = await visit.who()
    topic = await visit.broker.topic(name)
    mine = not is_system(name)
    clients, pair = await asyncio.gather(visit.broker.get(find_routes.TOPIC_CLIENTS.at(name)), visit.pair())
    address = visit.broker.address
    return visit.page(
        "topic.html",
        topic=topic,
        clients=clients,
        schema=await current_of(visit, name) if mine else None,
        sql=sql_link(name),
        mine=mine,
        row=_row(topic, pair),
        name=name,
        found=queues_of([Said(address, pair, topic)], address),
        may_read=who.may_on_topic(Action.SUB, name),
        may_send=mine and who.may_on_topic(Action.PUB, name),
        may_change=mine and who.may_on_topic(Action.UPDATE, name),
        may_delete=mine and who.may_on_topic(Action.DELETE, name),
        may_query=who.may(Action.SQL, Resource(Kind.LAKE)),
    )


async def new_topic(visit: Visit) -> Response:
    """The form of a new one."""
    await visit.who()
    values = dict.fromkeys(_FIELDS, "") | {"queues": "4", "permission": "rw"}
    return visit.page("topic_form.html", values=values, made=False, problem="", kinds=MESSAGE_TYPES)


async def edit_topic(visit: Visit) -> Response:
    """The form of one that is there."""
    topic = await visit.broker.topic(visit.path("topic"))
    values = {each: str(topic.get(each) or "") for each in _FIELDS}
    values |= {"name": topic["topic"], "queues": str(len(topic["queues"]))}
    return visit.page("topic_form.html", values=values, made=True, problem="", kinds=MESSAGE_TYPES)


async def create_topic(visit: Visit) -> Response:
    """Make it. One that is there already is left as it is."""
    return await _put(visit, visit.field("name"), made=False)


async def change_topic(visit: Visit) -> Response:
    """Change it as the form says."""
    return await _put(visit, visit.path("topic"), made=True)


async def _put(visit: Visit, name: str, made: bool) -> Response:
    values = {each: visit.field(each) for each in _FIELDS} | {"name": name}
    try:
        if not name:
            raise InvalidRequest("a topic needs a name")
        if not made and await _is_there(visit, name):
            raise InvalidRequest(f"there is a topic {name} already")
        content: dict[str, Any] = {
            "queues": visit.number("queues", 4, 1, 1_000_000),
            "permission": values["permission"] or "rw",
        }
        if values["message_type"]:
            content["message_type"] = values["message_type"]
        for each in ("ttl_ms", "message_bytes_max"):
            if values[each] or made:
                content[each] = visit.number(each, 0)
        await visit.broker.ask(routes.PUT_TOPIC.at(name), body=json.dumps(content).encode(), timeout_s=30.0)
    except LakemqError as error:
        if error.code in ("forbidden", "unauthenticated", "unreachable"):
            raise
        return visit.page("topic_form.html", 400, values=values, made=made, problem=error.detail, kinds=MESSAGE_TYPES)
    return visit.go(f"/topics/{segment(name)}", "changed" if made else "created")


async def _is_there(visit: Visit, name: str) -> bool:
    try:
        await visit.broker.topic(name)
    except LakemqError as error:
        if error.code == "topic_not_found":
            return False
        if error.code == "forbidden":
            return False  # the broker says so as it is to be made
        raise
    return True


async def ask_delete(visit: Visit) -> Response:
    """What goes with it, and whether that is meant."""
    topic = await visit.broker.topic(visit.path("topic"))
    return visit.page("topic_delete.html", row=_figures(topic), problem="")


async def delete_topic(visit: Visit) -> Response:
    """Delete it, where its name was written."""
    name = visit.path("topic")
    if visit.field("name") != name:
        topic = await visit.broker.topic(name)
        return visit.page("topic_delete.html", 400, row=_figures(topic), problem="The name doesn't match.")
    await visit.broker.ask(routes.DELETE_TOPIC.at(name), timeout_s=30.0)
    return visit.go("/topics", "deleted")


ROUTES = (
    ("GET", "/topics", list_topics),
    ("GET", "/new-topic", new_topic),
    ("POST", "/new-topic", create_topic),
    ("GET", "/topics/{topic}", show_topic),
    ("GET", "/topics/{topic}/edit", edit_topic),
    ("POST", "/topics/{topic}/edit", change_topic),
    ("GET", "/topics/{topic}/delete", ask_delete),
    ("POST", "/topics/{topic}/delete", delete_topic),
)
