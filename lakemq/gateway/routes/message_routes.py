"""Routes that find messages: by key, by id."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.by_key import KeySearch, Sought
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.pull.history import find_message
from lakemq.gateway.routes.topics_of_group import sees_waiting
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import MessageNotFound
from lakemq.model.names import SCHEDULE_TOPIC, check_readable
from lakemq.storage.read.store import Store
from lakemq.storage.slices.messages import to_dicts
from lakemq.web.asgi import client_of

FOUND_MAX = 1_000


def make_router(store: Store, cold: ColdReader, searches: KeySearch) -> APIRouter:
    """The routes of what is stored."""
    router = APIRouter()
    log, ids = store.log, store.ids

    @serves(router, routes.MESSAGES_BY_KEY)
    async def by_key(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        topic: str,
        key: Annotated[str, Query(min_length=1)],
        begin_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        end_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = NUMBER_MAX,
        messages_max: Annotated[int, Query(alias="max", ge=1, le=FOUND_MAX)] = 32,
    ) -> dict[str, Any]:
        log.topics.get(check_readable(topic))
        messages, complete = await searches.find(
            Sought(topic, key, begin_ms, end_ms, messages_max), client_of(request.scope)
        )
        return {"messages": messages, "complete": complete}

    @serves(router, routes.MESSAGE)
    async def message(request: Request, message_id: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        part = await find_message(store, cold, ids.position(message_id))
        found = to_dicts(part, ids)[0]
        # Who scheduled a message may look at it while it waits in a topic of the system.
        topic = found["real_topic"] if found["topic"] == SCHEDULE_TOPIC else found["topic"]
        caller_of(request.scope).check(need_of_topic((Action.SUB, Action.GET), topic), "the message's topic")
        # A topic that was made again has the same queues: what was deleted lies below their floors.
        is_deleted = found["queue_offset"] < log.topics.floor(found["topic"], found["queue_id"])
        if found["topic"] == SCHEDULE_TOPIC:
            is_deleted |= not sees_waiting(caller_of(request.scope), log.topics, topic, found["position"])
        if is_deleted:
            raise MessageNotFound(f"the topic of message {message_id!r} was deleted")
        return found

    return router
