"""Routes that list what waits, and end an open transaction."""

from __future__ import annotations

import asyncio
import re
from functools import cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict

from lakemq.contract import waiting_routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.filter import compile_filter
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.redrive.columns import fitting_rows
from lakemq.gateway.routes.find_routes import MESSAGE_COLUMNS, Criterion
from lakemq.gateway.routes.topics_of_group import sees_deleted, sees_waiting, sight_of_topics, sight_of_waiting
from lakemq.gateway.routing.due_list import START, Place
from lakemq.gateway.routing.transactions import Transactions
from lakemq.gateway.routing.waiting import SeesHalf, Waiting, Wanted
from lakemq.model.access import Action, need_of_group, need_of_topic
from lakemq.model.errors import InvalidRequest, TransactionNotFound
from lakemq.model.names import check_group, check_readable
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.store import Store
from lakemq.storage.state.topics import TopicTable
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate

ROWS_MAX = 500
BUCKETS_MAX = 500
ID_MAX = 300
_AFTER = re.compile(r"(\d{1,16})-(\d{1,18})")
_SEES_SCHEDULED = (Action.SUB, Action.GET, Action.PUB)
_READS = (Action.SUB,)
_PUB = (Action.PUB,)
Count = Annotated[int, Query(alias="max", ge=1, le=ROWS_MAX)]
Key = Annotated[str | None, Query(min_length=1)]
TimeMs = Annotated[int | None, Query(ge=0, le=NUMBER_MAX)]


class Ending(BaseModel):
    """How an open transaction ends."""

    model_config = ConfigDict(extra="forbid", strict=True)
    resolution: Literal["commit", "rollback"]


def make_router(waiting: Waiting, transactions: Transactions, store: Store, listing: Gate, clock: Clock) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()
    log, ids = store.log, store.ids

    @serves(router, waiting_routes.SCHEDULED)
    async def scheduled(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        topic: str | None = None,
        after: str | None = None,
        count_max: Count = 100,
        where: Criterion | None = None,
        key: Key = None,
    ) -> dict[str, Any]:
        wanted, client = _wanted(topic, key), client_of(request.scope)
        # What a predicate finds tells what is in the messages.
        caller = caller_of(request.scope)
        sees_topic = cache(sight_of_topics(caller, _SEES_SCHEDULED if where is None else _READS))
        sees_since = sight_of_waiting(caller, log.topics)

        def sees(name: str, position: int | None) -> bool:
            return sees_topic(name) and (position is None or sees_since(name, position))

        fits = None
        if where is not None:
            async with listing.place(client):
                predicate = await asyncio.to_thread(compile_filter, where, MESSAGE_COLUMNS)
            fits = partial(fitting_rows, where=predicate, ids=ids)
        page = await waiting.scheduled(_place(after), count_max, wanted, sees, client, fits)
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

    _add_transactions(router, waiting, transactions, log, clock)
    return router


def _add_transactions(
    router: APIRouter, waiting: Waiting, transactions: Transactions, log: CommitLog, clock: Clock
) -> None:
    @serves(router, waiting_routes.TRANSACTIONS)
    async def open_transactions(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        topic: str | None = None,
        group: str | None = None,
        after: Annotated[int, Query(ge=-1, le=NUMBER_MAX)] = -1,
        count_max: Count = 100,
        key: Key = None,
    ) -> dict[str, Any]:
        wanted = _wanted(topic, key)
        of = None if group is None else check_group(group)
        sees = _sight_of_halves(caller_of(request.scope), log.topics)
        page = await waiting.transactions(after, count_max, wanted, of, sees, client_of(request.scope))
        return {"now_ms": clock.now_ms(), "transactions": page.transactions, "next_after": page.following}

    @serves(router, waiting_routes.RESOLVE_OPEN)
    async def resolve_open(  # pyright: ignore[reportUnusedFunction]
        request: Request, group: str, half_id: Annotated[str, Path(max_length=ID_MAX)], body: Ending
    ) -> dict[str, Any]:
        def check(topic: str, position: int) -> None:
            caller = caller_of(request.scope)
            caller.check(need_of_topic(_PUB, topic), "the half message's topic")
            if not sees_waiting(caller, log.topics, topic, position):
                raise TransactionNotFound(f"no transaction begins with the half message {half_id!r}")

        await transactions.resolve_open(half_id, check_group(group), body.resolution, check)
        return {"half_id": half_id, "resolution": body.resolution}


def _wanted(topic: str | None, key: str | None) -> Wanted:
    return Wanted(None if topic is None else check_readable(topic), key)


def _sight_of_halves(caller: Caller, topics: TopicTable) -> SeesHalf:
    """Those that one could be asked about by a check: nobody else reads a half before it is committed."""
    sees_all, sees_since = sees_deleted(caller), sight_of_waiting(caller, topics)

    @cache
    def publishes(topic: str) -> bool:
        return caller.may(need_of_topic(_PUB, topic))

    @cache
    def is_of(group: str) -> bool:
        return caller.may(need_of_group(_PUB, group))

    return lambda group, topic, position: (
        sees_all or (is_of(group) and publishes(topic) and sees_since(topic, position))
    )


def _place(after: str | None) -> Place:
    if not after:
        return START
    found = _AFTER.fullmatch(after)
    if found is None:
        raise InvalidRequest("after is next_after of the page before")
    return Place(int(found[1]), int(found[2]))
