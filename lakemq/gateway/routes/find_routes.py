"""Routes for people who look for something: a topic's messages, what happened to one, who uses a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator

from lakemq.contract import find_routes
from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.filter import Filter, compile_filter
from lakemq.gateway.groups import Groups
from lakemq.gateway.groups.clients import Sight, age_of, describe
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import Pause, all_of, respond
from lakemq.gateway.http.text import check_text
from lakemq.gateway.pull.cursor import CHARACTERS_MAX, pack_place, unpack_place
from lakemq.gateway.pull.history import History, Place, waits_since
from lakemq.gateway.pull.search import TopicSearch, Wanted
from lakemq.gateway.pull.standing import Standings
from lakemq.gateway.redrive.columns import COLUMNS
from lakemq.gateway.routes.client_routes import SEES_ALL
from lakemq.gateway.routes.topics_of_group import READS, sees_waiting, sight_of_topics
from lakemq.model.access import Action, need_of_group, need_of_topic
from lakemq.model.errors import MessageNotFound
from lakemq.model.expiry import expires_ms
from lakemq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, check_readable
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate

CRITERION_CHARACTERS_MAX = 2_000
FOUND_MAX = 200
GROUPS_MAX = PRODUCERS_MAX = 100
"""Of one topic, that are shown."""
_OF_LETTERS = ("failure_class", "failure_text", "failed_at", "deliveries", "state")
MESSAGE_COLUMNS = {name: kind for name, kind in COLUMNS.items() if name not in _OF_LETTERS}
"""Those of the table `messages`, so that a predicate means the same in SQL."""
Criterion = Annotated[str, AfterValidator(check_text), Query(min_length=1, max_length=CRITERION_CHARACTERS_MAX)]
TimeMs = Annotated[int, Query(ge=0, le=NUMBER_MAX)]


def make_router(
    log: CommitLog, search: TopicSearch, history: History, groups: Groups, listing: Gate, clock: Clock
) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()
    _add_history(router, log, history, Standings(log, groups, clock), groups, listing)
    _add_clients(router, groups, listing)

    @serves(router, find_routes.SEARCH)
    async def search_topic(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        topic: str,
        key: Criterion | None = None,
        tag: Criterion | None = None,
        prop: Annotated[Criterion | None, Query(alias="property")] = None,
        text: Criterion | None = None,
        where: Criterion | None = None,
        begin_ms: TimeMs = 0,
        end_ms: TimeMs = NUMBER_MAX,
        before: Annotated[int, Query(ge=0, le=OFFSET_MAX)] = OFFSET_MAX,
        messages_max: Annotated[int, Query(alias="max", ge=1, le=FOUND_MAX)] = 50,
    ) -> Response:
        log.topics.get(check_readable(topic))
        predicate = None
        if where is not None:
            async with listing.place(client_of(request.scope)):
                predicate = await asyncio.to_thread(_compile, where)
        wanted = Wanted(
            key,
            tag,
            None if prop is None else _property(prop),
            text,
            predicate,
            begin_ms,
            None if end_ms == NUMBER_MAX else end_ms,
        )
        page = await search.page(topic, wanted, before, messages_max, client_of(request.scope))
        fields: dict[str, Any] = {
            "messages": iter(page.messages),
            "next_before": page.reached if page.reached > page.begin else None,
            "reached": page.reached,
            "log_begin": page.log_begin,
            "searched_from_ms": page.searched_from_ms,
        }
        return await respond(fields)

    return router


def _expires_ms(log: CommitLog, message: dict[str, Any]) -> int | None:
    topic = log.topics.find(message["topic"])
    return expires_ms(message["store_time_ms"], message.get("ttl_ms"), 0 if topic is None else topic.config.ttl_ms)


def _add_history(
    router: APIRouter, log: CommitLog, history: History, standings: Standings, groups: Groups, listing: Gate
) -> None:
    @serves(router, find_routes.HISTORY)
    async def history_of(  # pyright: ignore[reportUnusedFunction]
        request: Request, message_id: str, after: Annotated[str, Query(max_length=CHARACTERS_MAX)] = ""
    ) -> Response:
        caller = caller_of(request.scope)
        traced = await history.trace(message_id)
        for each in (traced.asked, traced.sent):
            # Its body isn't told, so who will get a half may know that there is one.
            waits = each["topic"] in (SCHEDULE_TOPIC, HALF_TOPIC)
            topic = each["real_topic"] if waits else each["topic"]
            caller.check(need_of_topic(READS, topic), "the message's topic")
            if waits and not sees_waiting(caller, log.topics, topic, waits_since(each)):
                raise MessageNotFound(f"the topic of message {message_id!r} was deleted")
        if history.is_deleted(traced.asked):
            raise MessageNotFound(f"the topic of message {message_id!r} was deleted")
        sees = cache(_sight_of_groups(caller, READS))
        topic = str(traced.sent.get("real_topic") or traced.sent["topic"])
        client = client_of(request.scope)
        async with listing.place(client):
            using = await _seen(await groups.using(topic), sees)
        place = unpack_place(after, message_id) if after else Place()
        page = await history.page(traced.sent, using[:GROUPS_MAX], place, client)
        target = await history.target(traced, page.events)
        standing = None
        if target is not None:
            async with listing.place(client):
                standing = [await standings.of(each, *target) for each in using[:GROUPS_MAX]]
        complete = page.following.position >= page.end
        fields: dict[str, Any] = {
            "message": _half(traced.sent) if traced.sent["topic"] == HALF_TOPIC else without_body(traced.sent),
            "topic": topic,
            "target": None if target is None else without_body(target[0]),
            "expires_ms": None if target is None else _expires_ms(log, target[0]),
            "waits": history.waits(traced.sent, sees),
            "events": iter(history.describe(page.events, sees)),
            "groups": standing,
            "more_groups": max(len(using) - GROUPS_MAX, 0),
            "now_ms": history.now_ms,
            "read_from_ms": await history.read_from_ms(traced.sent),
            "next_after": None if complete else pack_place(page.following, message_id),
        }
        return await respond(fields)


def _add_clients(router: APIRouter, groups: Groups, listing: Gate) -> None:
    @serves(router, find_routes.TOPIC_CLIENTS)
    async def clients_of(request: Request, topic: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        caller = caller_of(request.scope)
        sees = _sight_of_groups(caller, (*READS, Action.LIST))
        sight = Sight(caller.may(SEES_ALL), sight_of_topics(caller))
        async with listing.place(client_of(request.scope)):
            using = await _seen(await groups.using(check_readable(topic)), sees)
            consumers = [await groups.consumer(each, topic) for each in using[:GROUPS_MAX]]
            found = (pair for pair in groups.members.clients.producers() if topic in pair[1].status.topics)
            producers = await all_of(islice(found, PRODUCERS_MAX + 1))
            shown = [
                describe("producer", client_id, heard.group if sees(heard.group) else "", heard, age_of(heard), sight)
                for client_id, heard in producers[:PRODUCERS_MAX]
            ]
        fields: dict[str, Any] = {
            "topic": topic,
            "consumers": iter(consumers),
            "more_consumers": max(len(using) - GROUPS_MAX, 0),
            "producers": iter(shown),
            "more_producers": len(producers) > PRODUCERS_MAX,
        }
        return await respond(fields)


def _sight_of_groups(caller: Caller, actions: tuple[Action, ...]) -> Callable[[str], bool]:
    """Which groups who asks is shown. Where nobody says who he is there are no others."""
    return lambda group: caller.trusted or not caller.name or caller.may(need_of_group(actions, group))


async def _seen(names: Iterable[str], sees: Callable[[str], bool]) -> list[str]:
    """Those that one may see; there may be thousands."""
    pause, found = Pause(), list[str]()
    for name in names:
        if sees(name):
            found.append(name)
        await pause()
    return found


def _half(message: dict[str, Any]) -> dict[str, Any]:
    """What may be told of a half: what it says is its producer's until it is committed, and for ever if it isn't."""
    return without_body(message) | {"tag": None, "keys": [], "properties": {}, "ordering_key": None}


def _property(text: str) -> tuple[str, str | None]:
    name, separator, value = text.partition("=")
    return name, value if separator else None


def without_body(message: dict[str, Any]) -> dict[str, Any]:
    """The message as it is answered, but for its body."""
    return {name: value for name, value in message.items() if name not in ("body", "body_encoding")}


def _compile(where: str) -> Filter:
    return compile_filter(where, MESSAGE_COLUMNS)
