"""Routes that list what waits."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from lakemq.contract import waiting_routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routes.topics_of_group import sight_of_topics
from lakemq.gateway.routing.due_list import START, Place
from lakemq.gateway.routing.waiting import SeesHalf, Waiting
from lakemq.model.access import Action, Kind, Need, Resource, need_of_group, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group, check_readable
from lakemq.storage.disk.clock import Clock
from lakemq.web.asgi import client_of

ROWS_MAX = 500
BUCKETS_MAX = 500
_AFTER = re.compile(r"(\d{1,16})-(\d{1,18})")
_SEES_SCHEDULED = (Action.SUB, Action.GET, Action.PUB)
_PUB = (Action.PUB,)
_SYSTEM = Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True)
Count = Annotated[int, Query(alias="max", ge=1, le=ROWS_MAX)]
TimeMs = Annotated[int | None, Query(ge=0, le=NUMBER_MAX)]


def make_router(waiting: Waiting, clock: Clock) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()

    @serves(router, waiting_routes.SCHEDULED)
    async def scheduled(  # pyright: ignore[reportUnusedFunction]
        request: Request, topic: str | None = None, after: str | None = None, count_max: Count = 100
    ) -> dict[str, Any]:
        wanted = None if topic is None else check_readable(topic)
        sees = cache(sight_of_topics(caller_of(request.scope), _SEES_SCHEDULED))
        page = await waiting.scheduled(_place(after), count_max, wanted, sees, client_of(request.scope))
        following = None if page.following is None else f"{page.following.due_ms}-{page.following.position}"
        return {"now_ms": clock.now_ms(), "messages": page.messages, "next_after": following}

    @serves(router, waiting_routes.SCHEDULED_TIMES)
    async def times(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        begin_ms: TimeMs = None,
        within_ms: Annotated[int | None, Query(ge=1, le=NUMBER_MAX)] = None,
        buckets: Annotated[int, Query(ge=1, le=BUCKETS_MAX)] = 60,
    ) -> dict[str, Any]:
        now_ms = clock.now_ms()
        begin = now_ms if begin_ms is None else begin_ms
        end = None if within_ms is None else min(begin + within_ms, NUMBER_MAX)
        return {"now_ms": now_ms} | await waiting.times(begin, end, buckets, client_of(request.scope))

    @serves(router, waiting_routes.TRANSACTIONS)
    async def transactions(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        topic: str | None = None,
        group: str | None = None,
        after: Annotated[int, Query(ge=-1, le=NUMBER_MAX)] = -1,
        count_max: Count = 100,
    ) -> dict[str, Any]:
        wanted = None if topic is None else check_readable(topic)
        of = None if group is None else check_group(group)
        sees = _sight_of_halves(caller_of(request.scope))
        page = await waiting.transactions(after, count_max, wanted, of, sees, client_of(request.scope))
        return {"now_ms": clock.now_ms(), "transactions": page.transactions, "next_after": page.following}

    return router


def _sight_of_halves(caller: Caller) -> SeesHalf:
    """Those that one could be asked about by a check: nobody else reads a half before it is committed."""
    sees_all = caller.may(_SYSTEM)

    @cache
    def publishes(topic: str) -> bool:
        return caller.may(need_of_topic(_PUB, topic))

    @cache
    def is_of(group: str) -> bool:
        return caller.may(need_of_group(_PUB, group))

    return lambda group, topic: sees_all or (is_of(group) and publishes(topic))


def _place(after: str | None) -> Place:
    if not after:
        return START
    found = _AFTER.fullmatch(after)
    if found is None:
        raise InvalidRequest("after is next_after of the page before")
    return Place(int(found[1]), int(found[2]))
